/* As an installed cJSON has it: <cjson/cJSON.h>. */
#include "../../cJSON.h"
