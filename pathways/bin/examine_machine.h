// MachineExaminer: describes a process's machine to operators (proto/pathways/v1/examination.proto): its clock, its open files, its shared memory, its disks
// and the process's certificate.
//
// A file system may hang. So disks are measured on a thread that may wait, at the start and with each examination, which has the result of the measurement
// before: who wants a new one asks twice.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pathways/base/threads/executor.h"
#include "pathways/net/tls/tls.h"
#include "pathways/v1/examination.pb.h"

namespace pw {

class MachineExaminer {
 public:
  struct Environment {
    std::vector<std::string>
        folders;                    // whose disks are measured, besides that of the process's log; empty ones count for nothing
    Executor* disk;                 // its threads may wait; outlives the examinations
    std::shared_ptr<net::Tls> tls;  // shows the process's certificate; null: it has none
  };
  explicit MachineExaminer(Environment environment);

  // Reads the clock, /proc and the limits of this process. Does not block. Any thread.
  ::pathways::v1::Examination Examine() const;

 private:
  class Disks;

  const std::shared_ptr<net::Tls> tls_;
  const std::shared_ptr<Disks> disks_;
};

}  // namespace pw
