// ExamineMachine: reports a worker's machine to the controller (proto/pathways/v1/examination.proto): its clock, its open files,
// its shared memory.
#pragma once

#include "pathways/v1/examination.pb.h"

namespace pw {

// Reads the clock, /proc and the limits of this process. Does not block: the only file system that it examines is in memory.
::pathways::v1::Examination ExamineMachine();

}  // namespace pw
