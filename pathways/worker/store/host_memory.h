// HostMemory: the host memory through which arrays come and go, and the other processes that can reach it.
//
// Lives on the worker's strand. Copies of shared() may be used on any thread.
#pragma once

#include "pathways/base/memory/block_cache.h"
#include "pathways/base/threads/executor.h"
#include "pathways/net/shared/shared_memory.h"

namespace pw::worker {

class HostMemory {
 public:
  struct Options {
    bool shares = false;            // the controller and hosts of this machine can open our shared memory
    bool peers_in_process = false;  // the other hosts are in this process: data is passed to them without a copy
    Executor* copy_pool = nullptr;  // makes large copies between memories of this host; null: the device runtime makes them
  };
  explicit HostMemory(const Options& options) : options_(options) {}
  HostMemory(const HostMemory&) = delete;

  bool shares() const { return options_.shares; }
  bool peers_in_process() const { return options_.peers_in_process; }
  Executor* copy_pool() const { return options_.copy_pool; }
  net::SharedMemoryFactory& shared() { return shared_; }
  BlockCache& blocks() { return blocks_; }  // for incoming payloads

 private:
  const Options options_;
  net::SharedMemoryFactory shared_{net::SharedMemoryFactory::kDefaultLimit, net::KeptOfThisMachine()};
  BlockCache blocks_;
};

}  // namespace pw::worker
