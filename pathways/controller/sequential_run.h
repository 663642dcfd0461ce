// SequentialRun: one run of a program, dispatched node by node, each when the one before it has completed.
//
// The commands are those that parallel dispatch has the hosts make for themselves (dispatch/lower_program.h): this is the other
// half of every comparison, of results and of time (paper 4.5, figure 7). Nodes without a computation or transfer are not waited
// for. Each computation is a gang of its own: the islands' schedulers grant it like any other, by the client's share.
//
// Later commands of the session, which may name the run's results or take its arguments over, wait in the outbox until all of the
// run has been sent and done, and their gangs behind its barrier (gangs.h). Other sessions go on. A part of a program with nodes that
// wait for values keeps nobody waiting: its arguments and results have names that the client does not know (program_steps.h).
//
// Owned by the completions that it waits for. Sends nothing more once its session has ended. Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pathways/buffers/logical_array.h"
#include "pathways/controller/fabric.h"
#include "pathways/controller/program_entry.h"

namespace pw::controller {

class SequentialRun : public std::enable_shared_from_this<SequentialRun> {
 public:
  using Arrays = std::vector<buffers::LogicalArray::Ref>;
  // Takes its place in the session's order. Each of `results` waits for one completion, which this gives. `args` are held until the
  // end. `alive` goes with the session. Start is called inside the outbox's exclusive section of the session, which ends with the run.
  // `part_of`: the place of the whole that it is a part of; then it has no section.
  SequentialRun(Fabric* fabric, SessionId session, std::weak_ptr<bool> alive, std::shared_ptr<const ProgramEntry> entry,
                Arrays args, Arrays results, std::function<void(const absl::Status&)> done,
                std::shared_ptr<const Gangs::Barrier> part_of = nullptr);

  void Start() { Next(); }

 private:
  void Next();
  void Send(size_t host);
  bool Executes(size_t host) const;
  Gangs::Ticket Submit();
  void Completed(int node, const absl::Status& status);
  void Finish();

  Fabric* const fabric_;
  const SessionId session_;
  const std::weak_ptr<bool> alive_;
  const std::shared_ptr<const ProgramEntry> entry_;
  Arrays args_;
  Arrays results_;
  std::function<void(const absl::Status&)> done_;
  const uint64_t base_;
  const bool is_part_;
  const std::shared_ptr<const Gangs::Barrier> place_;
  Gangs::Ticket ticket_;  // of the present node, if it computes
  int node_ = -1;
  int left_ = 0;  // completions
  bool sending_ = false;
  std::vector<size_t> next_;  // command, of each host part
  std::vector<absl::Status> node_status_;
};

// The arrays of a program that concern one host, by id.
std::vector<uint64_t> IdsOf(const std::vector<buffers::LogicalArray::Ref>& arrays, const std::vector<uint32_t>& picked);

}  // namespace pw::controller
