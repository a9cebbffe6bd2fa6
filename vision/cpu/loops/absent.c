/* The table of an instruction set that is not in this build: vision_loops_for() does not return
 * it. */
#include "vision/cpu/loops/loops.h"

const struct vision_loops VISION_LOOPS_TABLE = {0};
