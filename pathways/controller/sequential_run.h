// SequentialRun: one run of a program, dispatched node by node (paper 4.5, figure 4a).
//
// The commands of a computation are sent when that before it is *enqueued*: when its hosts have said that they have prepared it, and that
// it has its turn on their devices (v1.Execute.enqueued). Nobody waits for its end. The copies that a computation takes go with its
// own commands, to their senders and receivers alike: they are no nodes of their own in the paper.
//
// The commands are those that parallel dispatch has the hosts make for themselves (dispatch/lower_program.h): this is the other
// half of every comparison, of results and of time (figure 7). Each computation is a gang of its own: the islands' schedulers grant it like any
// other, by the client's share.
//
// Later work of the session that names the run's results, or what it takes, waits in the outbox until the run has been sent
// (dispatch/array_order.h), and its gangs behind the run's barrier (gangs.h). Everything else goes on, and so do other runs. A part of a
// program with nodes that wait for values keeps nobody waiting: its arguments and results have names that the client does not know
// (program_steps.h).
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
  using Done = std::function<void(const absl::Status&)>;
  struct Part {
    std::shared_ptr<const Gangs::Barrier> place;  // of the whole
    std::function<void()> sent;                   // called when all of it is enqueued, before `done`
  };
  // Takes its place in the order of the session's work. Each of `results` waits for one completion, which this gives. `args` are held
  // until the end. `alive` goes with the session.
  SequentialRun(Fabric* fabric, SessionId session, std::weak_ptr<bool> alive, std::shared_ptr<const ProgramEntry> entry,
                Arrays args, Arrays results, Done done);
  // A part of a run that has its place.
  SequentialRun(Fabric* fabric, SessionId session, std::weak_ptr<bool> alive, std::shared_ptr<const ProgramEntry> entry,
                Arrays args, Arrays results, Done done, Part part);

  // It begins when its arrays allow.
  void Start();

 private:
  void Next();
  void Send(size_t host);
  OpId AskEnqueued(HostId host);
  bool Executes(size_t host) const;
  Gangs::Ticket Submit();
  void Enqueued();
  void Completed(int node, const absl::Status& status);
  void AllSent();
  void Finish();

  Fabric* const fabric_;
  const SessionId session_;
  const std::weak_ptr<bool> alive_;
  const std::shared_ptr<const ProgramEntry> entry_;
  Arrays args_;
  Arrays results_;
  Done done_;
  const uint64_t base_;
  Part part_;  // of none: it has a place and nobody to tell
  const bool is_part_;
  dispatch::ArrayOrder::Ticket order_ = 0;
  Gangs::Ticket ticket_;  // of the present node, if it computes
  int node_ = -1;
  int not_enqueued_ = 0;  // hosts, of the present node
  int left_ = 0;          // completions
  bool all_sent_ = false;
  std::vector<size_t> next_;  // command, of each host part
  std::vector<absl::Status> node_status_;
};

// The arrays of a program that concern one host, by id.
std::vector<uint64_t> IdsOf(const std::vector<buffers::LogicalArray::Ref>& arrays, const std::vector<uint32_t>& picked);

}  // namespace pw::controller
