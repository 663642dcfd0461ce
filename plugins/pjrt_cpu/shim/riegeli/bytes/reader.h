// Replaces a header of Riegeli (riegeli/base/any.h).
#pragma once

#include "riegeli/base/any.h"
