/* The learning rate from step to step.
 *
 * It rises in equal parts over optimizer.warmup_steps, and then follows optimizer.schedule down to
 * optimizer.final_rate of it, where optimizer.schedule_steps end. With optimizer.scale_with_batch
 * the rate is meant for a batch of optimizer.base_batch samples, and is multiplied by the ratio of
 * this batch to that one, or by the root of the ratio.
 * Source  warm-up and linear scaling: Goyal et al., "Accurate, Large Minibatch SGD", 2017, sections
 *         2.1 and 2.2; the root: Krizhevsky, "One weird trick for parallelizing convolutional
 *         neural networks", 2014, section 5; cosine: Loshchilov, Hutter, "SGDR", ICLR 2017,
 *         equation 5. */
#pragma once

#include "schedules/config/experiment.h"

/* The factor of optimizer.learning_rate in step `step`, counted from 0 over all runs that continue
 * each other. */
double experiment_rate_factor(const struct experiment *experiment, int step);
/* Whether the factor ever differs from 1. */
bool experiment_rate_varies(const struct experiment *experiment);
