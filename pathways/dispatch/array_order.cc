#include "pathways/dispatch/array_order.h"

#include <algorithm>
#include <utility>

namespace pw::dispatch {

void ArrayOrder::WaitFor(Ticket before, Ticket ticket, Item& item) {
  auto it = items_.find(before);
  if (it == items_.end()) return;
  if (item.session == SessionId()) item.session = it->second.session;
  std::vector<Ticket>& after = it->second.after;
  if (!after.empty() && after.back() == ticket) return;
  after.push_back(ticket);
  ++item.before;
}

void ArrayOrder::Add(SessionId session, const Names& names, Start start, bool brief) {
  const Ticket ticket = next_++;
  Item item{session, names.changes, std::move(start), brief, 0, {}};
  item.names.insert(item.names.end(), names.reads.begin(), names.reads.end());
  for (ArrayId array : names.changes) {
    Uses& uses = uses_[array];
    WaitFor(uses.changer, ticket, item);
    for (Ticket reader : std::exchange(uses.readers, {})) WaitFor(reader, ticket, item);
    uses.changer = ticket;
  }
  for (ArrayId array : names.reads) {
    Uses& uses = uses_[array];
    if (uses.changer == ticket) continue;
    WaitFor(uses.changer, ticket, item);
    if (uses.readers.empty() || uses.readers.back() != ticket) uses.readers.push_back(ticket);
  }
  Admit(ticket, std::move(item));
}

void ArrayOrder::Admit(Ticket ticket, Item item) {
  if (item.before == 0) ready_.push_back(ticket);
  items_.insert({ticket, std::move(item)});
  RunReady();
}

void ArrayOrder::RunReady() {
  if (running_) return;
  running_ = true;
  while (!ready_.empty()) {
    const Ticket ticket = ready_.front();
    ready_.pop_front();
    Start start = std::exchange(items_.at(ticket).start, nullptr);
    std::move(start)(ticket);
    if (auto it = items_.find(ticket); it != items_.end() && it->second.brief) End(ticket);
  }
  running_ = false;
}

void ArrayOrder::End(Ticket ticket) {
  auto it = items_.find(ticket);
  if (it == items_.end()) return;
  const Item item = std::move(it->second);
  items_.erase(it);
  for (ArrayId array : item.names) {
    auto uses = uses_.find(array);
    if (uses == uses_.end()) continue;
    if (uses->second.changer == ticket) uses->second.changer = 0;
    std::erase(uses->second.readers, ticket);
    if (uses->second.changer == 0 && uses->second.readers.empty()) uses_.erase(uses);
  }
  for (Ticket after : item.after) {
    auto waiting = items_.find(after);
    if (waiting != items_.end() && --waiting->second.before == 0) ready_.push_back(after);
  }
  RunReady();
}

void ArrayOrder::DoLater(std::vector<ArrayId> arrays, absl::AnyInvocable<void() &&> work) {
  Add(SessionId(), {{}, std::move(arrays)}, [work = std::move(work)](Ticket) mutable { std::move(work)(); }, true);
}

void ArrayOrder::DoAfterAll(SessionId session, absl::AnyInvocable<void() &&> work) {
  const Ticket ticket = next_++;
  Item item{session, {}, [work = std::move(work)](Ticket) mutable { std::move(work)(); }, true, 0, {}};
  for (const auto& [before, other] : items_) {
    if (other.session == session) WaitFor(before, ticket, item);
  }
  Admit(ticket, std::move(item));
}

// In the order of tickets: an item waits only for items with smaller tickets, which have ended by then.
void ArrayOrder::EndSession(SessionId session) {
  std::vector<Ticket> tickets;
  for (const auto& [ticket, item] : items_) {
    if (item.session == session) tickets.push_back(ticket);
  }
  for (Ticket ticket : tickets) {
    auto it = items_.find(ticket);
    if (it == items_.end()) continue;
    if (it->second.start)
      it->second.brief = true;  // EndSession was called from another item's start: RunReady begins this one, and ends it at once
    else
      End(ticket);
  }
}

bool ArrayOrder::MustWait(absl::Span<const ArrayId> arrays) const {
  return std::any_of(arrays.begin(), arrays.end(), [this](ArrayId array) { return uses_.contains(array); });
}

}  // namespace pw::dispatch
