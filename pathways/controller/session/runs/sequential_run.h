// SequentialRun: one run of a program, dispatched node by node (paper 4.5, figure 4a). GraphPrograms and ProgramSteps start one for each run
// in sequential dispatch.
//
// The commands of a computation are sent when the computation before it is *enqueued*. That is when its hosts have reported that
// they have prepared it and that its turn on their devices has come (v1.Execute.enqueued). The run does not wait for its end. The
// copies that a computation reads are sent with its own commands, to senders and receivers alike: in the paper they are no nodes
// of their own.
//
// In parallel dispatch the hosts generate the same commands for themselves (dispatch/lower_program.h). So this is the baseline of every
// comparison, of results and of time (figure 7). Each computation is a gang of its own: the islands' schedulers grant it like any other, by
// the client's share.
//
// Later commands of the session that name the run's results, or the arrays that it takes, wait in the outbox until the run has been sent
// (dispatch/array_order.h). Their gangs wait behind the run's barrier (gangs.h). Other commands and other runs go on. A part of a
// program with waiting nodes blocks nothing: the client does not know the names of its arguments and results (program_steps.h).
//
// Owned by the completions that it waits for. Sends nothing more once its session has ended. Strand-confined.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pathways/buffers/logical_array.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/programs/program_entry.h"

namespace pw::controller {

class SequentialRun : public std::enable_shared_from_this<SequentialRun> {
 public:
  using Arrays = std::vector<buffers::LogicalArray::Ref>;
  using Done = std::function<void(const absl::Status&)>;
  struct Part {
    std::shared_ptr<const Gangs::Barrier> place;  // the place of the whole run
    std::function<void()> sent;                   // called when all nodes are enqueued, before `done`
  };
  // Takes its place in the order of the session's work. `names`: as many as the entry needs. Each of `results` waits for one completion, which this gives. `args` are held until
  // the end. `alive` expires with the session.
  SequentialRun(Fabric* fabric, SessionId session, NameScope names, std::weak_ptr<bool> alive,
                std::shared_ptr<const ProgramEntry> entry, Arrays args, Arrays results, Done done);
  // For a part of a run that already has its place.
  SequentialRun(Fabric* fabric, SessionId session, NameScope names, std::weak_ptr<bool> alive,
                std::shared_ptr<const ProgramEntry> entry, Arrays args, Arrays results, Done done, Part part);

  // Starts the run as soon as earlier commands with its arrays have been sent.
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
  NameScope names_;
  const uint64_t base_, launches_;
  Part part_;  // for a run that is no part: holds its own place, no `sent`
  const bool is_part_;
  dispatch::ArrayOrder::Ticket order_ = 0;
  Gangs::Ticket ticket_;  // of the current node, if it computes
  int node_ = -1;
  int not_enqueued_ = 0;  // hosts of the current node
  int left_ = 0;          // completions that have not come
  bool all_sent_ = false;
  std::vector<size_t> next_;  // index of the next command, for each host part
  std::vector<absl::Status> node_status_;
};

// Returns the ids of the picked arrays.
std::vector<uint64_t> IdsOf(const std::vector<buffers::LogicalArray::Ref>& arrays, const std::vector<uint32_t>& picked);

}  // namespace pw::controller
