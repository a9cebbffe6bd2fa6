/* The learning rate from step to step.
 *
 * It rises in equal parts over optimizer.warmup_steps, and then follows optimizer.schedule down to optimizer.final_rate of it, where
 * optimizer.schedule_steps end. Where it follows the batch it is the one for a batch of optimizer.base_batch samples, times the batch's ratio
 * to that, or the ratio's root.
 * Source  warm-up and linear scaling: Goyal et al., "Accurate, Large Minibatch SGD", 2017, sections 2.1 and 2.2; the root: Krizhevsky, "One
 *         weird trick for parallelizing convolutional neural networks", 2014, section 5; cosine: Loshchilov, Hutter, "SGDR", ICLR 2017,
 *         equation 5. */
#ifndef SCHEDULES_CONFIG_LEARNING_RATE_H
#define SCHEDULES_CONFIG_LEARNING_RATE_H

#include "schedules/config/experiment.h"

/* What optimizer.learning_rate is multiplied by in step `step`, from 0 over all runs that go on with each other. */
double experiment_rate_factor(const struct experiment *experiment, int step);
/* Whether it is ever another one than 1. */
bool experiment_rate_varies(const struct experiment *experiment);

#endif
