/* The table of a level that this build leaves out: vision_loops_for() does not hand it out. */
#include "vision/cpu/loops/tables.h"

const struct vision_loops VISION_LOOPS_TABLE = {0};
