// ExamineMachine: a worker's answer about its machine when the controller asks (proto/pathways/v1/examination.proto): its clock, its open files, its shared memory.
#pragma once

#include "pathways/v1/examination.pb.h"

namespace pw {

// Reads the clock, /proc and the limits of this process. Does not wait: the only file system that it looks at is in memory.
::pathways::v1::Examination ExamineMachine();

}  // namespace pw
