// ArrayOrder: in which order work that names the same arrays goes to the hosts, where some of it is sent bit by bit.
//
// With sequential dispatch a run of a program is sent node by node. Until all of it has been sent, hosts do not know the arrays that it
// makes, and those that it takes must stay. So later work that names one of them waits until the run has been sent; other work goes on,
// other runs as well.
//
// Arrays belong to sessions, and so does the work that names them.
//
// Pure; strand-confined.
//
// Invariants:
//   AO-1  of two pieces of work that name one array, and do not both only read it, the later begins after the earlier has ended
//   AO-2  work begins exactly once, when all that it waits for has ended
//   AO-3  no recursion: however long a chain of waiting work is, starting it uses constant stack
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
    std::vector<ArrayId> changes;  // that it makes, takes over or releases
  };

  // Work that lasts from `start` until End.
  void Begin(SessionId session, const Names& names, Start start) { Add(session, names, std::move(start), false); }
  void End(Ticket ticket);
  // Work that has ended when it returns. It may change any of `arrays`. REQUIRES: MustWait(arrays).
  void DoLater(std::vector<ArrayId> arrays, absl::AnyInvocable<void() &&> work);
  // Likewise; it waits for all work of the session, and nothing waits for it.
  void DoAfterAll(SessionId session, absl::AnyInvocable<void() &&> work);
  // All work of the session ends, in order; what has not begun begins.
  void EndSession(SessionId session);

  // Whether work that changes one of these would have to wait.
  bool MustWait(absl::Span<const ArrayId> arrays) const;
  bool empty() const { return items_.empty(); }

 private:
  struct Item {
    SessionId session;
    std::vector<ArrayId> names;
    Start start;
    bool brief = false;         // it has ended when `start` returns
    int before = 0;             // items that it waits for
    std::vector<Ticket> after;  // items that wait for it
  };
  // The items that name an array, and have not ended: the last that changes it, and those that read it since.
  struct Uses {
    Ticket changer = 0;
    std::vector<Ticket> readers;
  };

  void Add(SessionId session, const Names& names, Start start, bool brief);
  void WaitFor(Ticket before, Ticket ticket, Item& item);
  void Admit(Ticket ticket, Item item);
  void RunReady();

  Ticket next_ = 1;
  std::map<Ticket, Item> items_;  // that have not ended
  absl::flat_hash_map<ArrayId, Uses> uses_;
  std::deque<Ticket> ready_;  // wait for nothing, and have not begun
  bool running_ = false;
};

}  // namespace pw::dispatch
