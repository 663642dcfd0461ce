#include "pathways/program/repeated_moves.h"

#include <algorithm>
#include <utility>

namespace pw::program {
namespace {

using ::pathways::v1::Move;
using Longs = google::protobuf::RepeatedField<int64_t>;

// ---- entries as numbers, and back

void Append(const Longs& values, std::vector<int64_t>* numbers) { numbers->insert(numbers->end(), values.begin(), values.end()); }

void AppendGrowing(const Move::Send& send, std::vector<int64_t>* numbers) {
  numbers->insert(numbers->end(), {send.shard(), static_cast<int64_t>(send.transfer())});
  Append(send.region().start(), numbers);
}

void AppendGrowing(const Move::Receive& receive, std::vector<int64_t>* numbers) {
  numbers->insert(numbers->end(), {receive.shard(), receive.local_device()});
  for (const Move::Receive::Piece& piece : receive.pieces()) {
    numbers->insert(numbers->end(), {piece.source_shard(), static_cast<int64_t>(piece.transfer())});
    Append(piece.to().start(), numbers);
    Append(piece.from().start(), numbers);
  }
}

// Sizes come first, so that different entries never give the same numbers.
void AppendAlike(const Move::Send& send, std::vector<int64_t>* numbers) {
  numbers->insert(numbers->end(), {static_cast<int64_t>(send.array()), send.to_host(), send.region().start_size()});
  Append(send.region().size(), numbers);
}

void AppendAlike(const Move::Receive& receive, std::vector<int64_t>* numbers) {
  numbers->insert(numbers->end(), {static_cast<int64_t>(receive.array()), receive.dtype(), receive.dims_size(),
                                   static_cast<int64_t>(receive.memory_kind().size())});
  Append(receive.dims(), numbers);
  numbers->insert(numbers->end(), receive.memory_kind().begin(), receive.memory_kind().end());
  for (const Move::Receive::Piece& piece : receive.pieces()) {
    numbers->insert(numbers->end(), {static_cast<int64_t>(piece.source_array()), piece.from_host(), piece.to().start_size(),
                                     piece.to().size_size(), piece.from().start_size(), piece.from().size_size()});
    Append(piece.to().size(), numbers);
    Append(piece.from().size(), numbers);
  }
}

// Sets all values from the numbers at `at`. Returns the end of the numbers used.
const int64_t* Take(const int64_t* at, Longs* values) {
  for (int64_t& value : *values) value = *at++;
  return at;
}

void SetGrowing(const std::vector<int64_t>& numbers, Move::Send* send) {
  const int64_t* at = numbers.data();
  send->set_shard(static_cast<int32_t>(*at++));
  send->set_transfer(static_cast<uint64_t>(*at++));
  if (send->has_region()) Take(at, send->mutable_region()->mutable_start());
}

void SetGrowing(const std::vector<int64_t>& numbers, Move::Receive* receive) {
  const int64_t* at = numbers.data();
  receive->set_shard(static_cast<int32_t>(*at++));
  receive->set_local_device(static_cast<int32_t>(*at++));
  for (Move::Receive::Piece& piece : *receive->mutable_pieces()) {
    piece.set_source_shard(static_cast<int32_t>(*at++));
    piece.set_transfer(static_cast<uint64_t>(*at++));
    if (piece.has_to()) at = Take(at, piece.mutable_to()->mutable_start());
    if (piece.has_from()) at = Take(at, piece.mutable_from()->mutable_start());
  }
}

// Returns a + b * times. The numbers are untrusted, so sums wrap around.
int64_t Sum(int64_t a, int64_t b, int64_t times) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b) * static_cast<uint64_t>(times));
}

template <class Entry, class Visit>
void ForEach(const google::protobuf::RepeatedPtrField<Entry>& entries, Visit visit) {
  for (const Entry& first : entries) {
    if (first.repeats().empty()) {
      visit(first);
      continue;
    }
    Entry entry = first;
    entry.clear_repeats();
    std::vector<int64_t> start;
    AppendGrowing(entry, &start);
    int64_t all = 1;
    for (const Move::Repeat& level : first.repeats()) all = std::min(kMaxRepeated, all * std::max<int64_t>(level.count(), 1));
    for (int64_t k = 0; k < all; ++k) {
      std::vector<int64_t> numbers = start;
      int64_t left = k;  // the innermost level is the first
      for (const Move::Repeat& level : first.repeats()) {
        const int64_t count = std::max<int64_t>(level.count(), 1), times = left % count;
        left /= count;
        for (int i = 0; i < level.steps_size() && i < static_cast<int>(numbers.size()); ++i)
          numbers[i] = Sum(numbers[i], level.steps(i), times);
      }
      SetGrowing(numbers, &entry);
      visit(entry);
    }
  }
}

// Adds a repeat, without trailing zero steps.
void AddRepeat(int64_t count, const std::vector<int64_t>& step, google::protobuf::RepeatedPtrField<Move::Repeat>* repeats) {
  if (count <= 1) return;
  Move::Repeat* repeat = repeats->Add();
  repeat->set_count(static_cast<uint32_t>(count));
  size_t size = step.size();
  while (size > 0 && step[size - 1] == 0) --size;
  repeat->mutable_steps()->Add(step.begin(), step.begin() + static_cast<ptrdiff_t>(size));
}

}  // namespace

template <class Entry>
void MoveRuns<Entry>::SetItem(const Entry& entry, Item* item) {
  item->alike.clear();
  item->growing.clear();
  AppendAlike(entry, &item->alike);
  AppendGrowing(entry, &item->growing);
}

template <class Entry>
bool MoveRuns<Entry>::Run::Continue(const Item& next) {
  if (count == 0 || count >= kMaxRepeated || next.alike != first.alike || next.growing.size() != last.size()) return false;
  if (count == 1) {
    step.resize(last.size());
    for (size_t i = 0; i < last.size(); ++i) step[i] = Sum(next.growing[i], last[i], -1);
  }
  for (size_t i = 0; i < last.size(); ++i) {
    if (Sum(last[i], step[i], 1) != next.growing[i]) return false;
  }
  last = next.growing;
  ++count;
  return true;
}

template <class Entry>
void MoveRuns<Entry>::Run::Begin(const Item& item) {
  first = item;
  last = item.growing;
  step.assign(last.size(), 0);
  count = 1;
}

template <class Entry>
void MoveRuns<Entry>::Add(const Entry& entry) {
  SetItem(entry, &scratch_);
  if (inner_.Continue(scratch_)) return;
  CloseInner();
  inner_.Begin(scratch_);
  entries_.push_back(entry);
}

// Closes the inner run, whose entry is the last of the list. If it continues the outer run, its entry is removed.
template <class Entry>
void MoveRuns<Entry>::CloseInner() {
  if (inner_.count == 0) return;
  Item item = std::move(inner_.first);
  item.alike.push_back(inner_.count);
  item.alike.insert(item.alike.end(), inner_.step.begin(), inner_.step.end());
  const bool fits = inner_.count * (outer_.count + 1) <= kMaxRepeated;
  if (fits && outer_.Continue(item)) {
    entries_.pop_back();
  } else {
    CloseOuter();
    outer_.Begin(item);
    outer_entry_ = entries_.size() - 1;
    AddRepeat(inner_.count, inner_.step, entries_.back().mutable_repeats());
  }
  inner_.count = 0;
}

template <class Entry>
void MoveRuns<Entry>::CloseOuter() {
  if (outer_.count > 1) AddRepeat(outer_.count, outer_.step, entries_[outer_entry_].mutable_repeats());
  outer_.count = 0;
}

template <class Entry>
std::vector<Entry> MoveRuns<Entry>::Take() {
  CloseInner();
  CloseOuter();
  return std::move(entries_);
}

template class MoveRuns<Move::Send>;
template class MoveRuns<Move::Receive>;

void ForEachSend(const Move& move, absl::FunctionRef<void(const Move::Send&)> visit) { ForEach(move.sends(), visit); }
void ForEachReceive(const Move& move, absl::FunctionRef<void(const Move::Receive&)> visit) { ForEach(move.receives(), visit); }

Move Expanded(const Move& move) {
  Move expanded = move;
  expanded.clear_sends();
  expanded.clear_receives();
  ForEachSend(move, [&](const Move::Send& send) { *expanded.add_sends() = send; });
  ForEachReceive(move, [&](const Move::Receive& receive) { *expanded.add_receives() = receive; });
  return expanded;
}

}  // namespace pw::program
