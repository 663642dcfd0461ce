// ArrayOrder: decides the order in which work that names the same arrays goes to the hosts. The Outbox uses it while runs of programs
// are dispatched sequentially.
//
// With sequential dispatch, a run is sent node by node. Until all of it has been sent, hosts do not know the arrays that it makes, and
// the arrays that it takes must stay. So later work that names one of these arrays waits until the run has been sent. Other work, other
// runs included, does not wait.
//
// Arrays, and the work that names them, belong to sessions.
//
// Pure; strand-confined.
//
// Invariants:
//   AO-1  of two pieces of work that name the same array, unless both only read it, the later begins after the earlier has ended
//   AO-2  work begins exactly once, when all that it waits for has ended
//   AO-3  no recursion: starting a chain of waiting work uses constant stack, however long the chain
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"

namespace pw::dispatch {

class ArrayOrder {
 public:
  using Ticket = uint64_t;
  using Start = absl::AnyInvocable<void(Ticket) &&>;
  struct Names {
    std::vector<ArrayId> reads;
    std::vector<ArrayId> changes;  // that it makes, donates or releases
  };

  // Adds work that lasts from the call of `start` until End.
  void Begin(SessionId session, const Names& names, Start start) { Add(session, names, std::move(start), false); }
  void End(Ticket ticket);
  // Adds work that ends when it returns, and may change any of `arrays`. REQUIRES: MustWait(arrays).
  void DoLater(std::vector<ArrayId> arrays, absl::AnyInvocable<void() &&> work);
  // Adds work that waits for all work of the session, and ends when it returns. No work waits for it.
  void DoAfterAll(SessionId session, absl::AnyInvocable<void() &&> work);
  // Ends all work of the session, in order. Work that has not begun is begun first.
  void EndSession(SessionId session);

  // Returns whether work that changes one of these arrays would have to wait.
  bool MustWait(absl::Span<const ArrayId> arrays) const;
  bool empty() const { return items_.empty(); }

 private:
  struct Item {
    SessionId session;
    std::vector<ArrayId> names;
    Start start;
    bool brief = false;         // it ends when `start` returns
    int before = 0;             // number of items that it waits for
    std::vector<Ticket> after;  // items that wait for it
  };
  // The unended items that name an array: the last one that changes it, and those that read it since.
  struct Uses {
    Ticket changer = 0;
    std::vector<Ticket> readers;
  };

  void Add(SessionId session, const Names& names, Start start, bool brief);
  void WaitFor(Ticket before, Ticket ticket, Item& item);
  void Admit(Ticket ticket, Item item);
  void RunReady();

  Ticket next_ = 1;
  std::map<Ticket, Item> items_;  // those that have not ended
  absl::flat_hash_map<ArrayId, Uses> uses_;
  std::deque<Ticket> ready_;  // items that wait for nothing, and have not begun
  bool running_ = false;
};

}  // namespace pw::dispatch
