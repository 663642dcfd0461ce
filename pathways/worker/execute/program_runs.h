// ProgramRuns: this host's part of each program of many nodes, and its runs.
//
// A program is a list of command templates (program/command_template.h). A run binds them to the arrays and names in its message and
// dispatches each command like any other; there is no second way to execute or move anything. Commands of a run wait for their inputs as
// usual. Their completions come back here (Outbox::Done) instead of going to the controller, which gets one answer for the run.
//
// Invariants:
//   WR-1  every RunProgram is answered exactly once, after all its commands have completed
//   WR-2  every stage's op is answered exactly once, before the run's op
//   WR-3  the answer names the results of the run that are poisoned on this host, and no others
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/worker/store/core.h"

namespace pw::worker {

class ProgramRuns {
 public:
  using Dispatch = std::function<void(const pathways::v1::Command&)>;

  // Registers for the outbox's local completions.
  ProgramRuns(Core* core, Dispatch dispatch);

  void Load(const pathways::v1::LoadProgram& command);
  void Drop(uint64_t program) { programs_.erase(program); }
  void Run(const pathways::v1::RunProgram& command);
  void ReleaseOwner(SessionId session);

  int64_t loaded() const { return static_cast<int64_t>(programs_.size()); }
  int64_t running() const { return static_cast<int64_t>(runs_.size()); }

 private:
  struct Loaded {
    SessionId session;
    std::vector<pathways::v1::Command> templates;
    std::vector<pathways::v1::Command> bound;  // by the latest run
    size_t args = 0;
    size_t results = 0;
    absl::Status error;  // why it cannot run
  };
  struct Stage {
    uint64_t op = 0;
    uint32_t end = 0;  // commands
    size_t left = 0;   // Executes
    double device_microseconds = 0;
  };
  struct Underway {
    uint64_t op = 0;
    std::shared_ptr<const Loaded> program;
    std::vector<Stage> stages;
    size_t left = 0;
    double device_microseconds = 0;
    uint32_t first_failed = 0;  // command
    absl::Status error;         // of that command
    std::vector<uint64_t> results;
  };

  void Completed(uint64_t local_op, const absl::Status& status, double device_microseconds);
  static void BindStages(const pathways::v1::RunProgram& command, Loaded* program, Underway* run);
  void ExecutedInStage(Underway* run, uint32_t command, double device_microseconds);
  void CountDown(uint64_t number);
  void Finish(const Underway& run);
  void Refuse(const pathways::v1::RunProgram& command, const absl::Status& error);

  Core* const core_;
  const Dispatch dispatch_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Loaded>> programs_;
  absl::flat_hash_map<uint64_t, Underway> runs_;
  uint64_t next_run_ = 0;
};

}  // namespace pw::worker
