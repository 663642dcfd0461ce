// ProgramNodes: the operator of the nodes of programs' graphs (program::kNodeOperator), and this host's part of their runs.
//
// A node's config is a list of command templates (v1.NodeCommands). A run binds them to the arrays and names in its argument
// (v1.ProgramRun), and dispatches each command like any other. There is no second way to execute or move anything. This happens
// in OnStart, which comes in the order of the nodes. So a host launches all executions in the order of the program, without
// waiting for predecessors. For the dataflow runtime the run is then over. Commands wait for their inputs as usual. Their
// completions come back here (Outbox::Done) instead of going to the controller, which gets one answer for the run.
//
// A host also begins runs itself: the turns of loops (loops.h). Their ends go to a callback.
//
// Templates are parsed at the first run of a graph, and kept until its part has gone.
//
// Invariants:
//   WR-1  every run is answered exactly once, after all its commands have completed, or with the error for which it cannot begin. A run whose op has come before is another start of the same
//         one: it carries out nothing, and only repeats the answers
//   WR-2  every stage's op is answered exactly once, before the run's op
//   WR-3  the answer names the results of the run that are poisoned on this host, and no others
// Lives on the worker's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/dataflow/operator.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/store/object_store.h"

namespace pw::worker {

class ProgramNodes {
 public:
  using Dispatch = std::function<void(const pathways::v1::Command&)>;

  // Registers for the outbox's local completions.
  ProgramNodes(WorkerContext* context, ObjectStore* store, Dispatch dispatch);

  // Returns a registry with the operator. This must outlive the runtime that uses it.
  dataflow::Operators Operators();

  // Begins a run of this host alone, in the order of the part's nodes, and returns when its commands have been dispatched. `ended` is called
  // once, perhaps before that, with the error of its first command that failed and the device time. `where`: tells errors which run it is.
  // The run's op and stages are not used. REQUIRES: `part` is shared.
  using Ended = std::function<void(const absl::Status& error, double device_microseconds)>;
  void Run(const dataflow::GraphPart& part, pathways::v1::ProgramRun message, std::string where, Ended ended);

  // Answers a run of the controller that this host cannot begin. `argument`: of the run, or of a route's, whose fields have the same numbers. Does
  // nothing if it is another, or has begun before.
  void Refuse(const std::string& argument, const absl::Status& why);

  int64_t running() const { return static_cast<int64_t>(runs_.size()); }

 private:
  class Node;
  struct Templates {
    std::string name;  // of the node: the location of its commands
    std::vector<pathways::v1::Command> commands;
    std::vector<pathways::v1::Command> bound;  // by the latest run
    size_t args = 0;
    size_t results = 0;
    size_t names = 0;
    bool spans = false;  // launches over several hosts
    absl::Status error;  // why it cannot run
  };
  // A part of a graph.
  struct Program {
    std::weak_ptr<const dataflow::GraphPart> part;
    std::vector<Templates> nodes;  // by position in the part
  };
  using ProgramRef = std::shared_ptr<Program>;
  struct Stage {
    uint64_t op = 0;
    size_t to_begin = 0;  // Executes that have not begun
    size_t left = 0;      // Executes that have not completed
    double device_microseconds = 0;
  };
  struct Underway {
    pathways::v1::ProgramRun message;
    std::vector<Stage> stages;
    size_t stage = 0;                // of the next Execute
    std::vector<uint32_t> stage_of;  // of each command; empty if the run is one gang
    uint32_t begun = 0;              // commands
    size_t left = 1;                 // one for the nodes that have not begun
    double device_microseconds = 0;
    uint32_t first_failed = 0;  // command
    absl::Status error;         // of that command
    std::string where;          // of a run of this host alone
    Ended ended;                // null: the controller is told
  };
  // Held by the nodes of a run until all have begun. A repeated run has no number.
  static constexpr uint64_t kRepeated = UINT64_MAX;
  struct Beginning {
    ~Beginning() {
      if (number != kRepeated) nodes->CountDown(number);
    }
    ProgramNodes* nodes;
    uint64_t number;
    dataflow::RunId run;
    ProgramRef program;
  };
  using BeginningRef = std::shared_ptr<Beginning>;

  absl::StatusOr<std::unique_ptr<dataflow::Operator>> Make(const dataflow::OperatorContext& context);
  absl::StatusOr<BeginningRef> BeginningOf(const dataflow::OperatorContext& context);
  // Notes the ops of a run. Returns false if they have come before, and repeats the answers that they have had.
  bool IsNew(const pathways::v1::ProgramRun& run);
  ProgramRef ProgramOf(const dataflow::GraphPart& part);
  static Templates Parse(const dataflow::Node& node);
  void Begin(uint64_t number, Templates* node);
  static void AddPlace(const std::string& where, pathways::v1::Command* command);
  void Refuse(Underway* run, const Templates& node, const absl::Status& error);
  // Returns OK if the run has what the node's commands name.
  static absl::Status CheckNames(const pathways::v1::ProgramRun& run, const Templates& node);
  static void TakePlace(Underway* run, pathways::v1::Command* command);
  void Completed(uint64_t local_op, const absl::Status& status, double device_microseconds);
  void Executed(Underway* run, uint32_t stage, double device_microseconds);
  void CountDown(uint64_t number);
  void Finish(const Underway& run);

  WorkerContext* const context_;
  ObjectStore* const store_;
  const Dispatch dispatch_;
  absl::flat_hash_map<const dataflow::GraphPart*, ProgramRef> programs_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Underway>> runs_;
  std::weak_ptr<Beginning> beginning_;  // of the latest run
  uint64_t next_run_ = 0;
};

}  // namespace pw::worker
