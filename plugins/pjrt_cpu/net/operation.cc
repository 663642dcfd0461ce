#include "plugins/pjrt_cpu/net/operation.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pw::pjrt_cpu {
namespace {

// All-reduces whose contributions, of all devices together, are no more than this are sent whole.
constexpr size_t kSendWhole = 16 << 10;

using Parts = std::vector<absl::string_view>;
using Places = std::vector<int>;

// A part of an array that is worked on, in bytes.
struct Region {
  char* data = nullptr;
  size_t bytes = 0;
};

class Operation {
 public:
  Operation(Wire& wire, const GroupLayout& layout, const OperationKey& key, std::vector<Contribution>& seats)
      : wire_(wire),
        layout_(layout),
        key_(key),
        seats_(seats),
        processes_(layout.processes),
        local_(layout.local_ranks),
        bytes_(seats[0].bytes) {
    all_.resize(processes_.size());
    std::iota(all_.begin(), all_.end(), 0);
    for (size_t i = 0; i < layout.islands.size(); ++i) {
      const Places& island = layout.islands[i];
      const auto at = std::find(island.begin(), island.end(), layout.mine);
      if (at == island.end()) continue;
      mates_ = island;
      const size_t k = at - island.begin();
      for (const Places& other : layout.islands) counterparts_.push_back(other[k]);
    }
  }

  absl::Status Perform() {
    switch (key_.what) {
      case GroupOp::kAllReduce:
        return AllReduce();
      case GroupOp::kReduceScatter:
        return ReduceScatter();
      case GroupOp::kAllGather:
        return AllGather();
      case GroupOp::kAllToAll:
        return AllToAll();
      case GroupOp::kPermute:
        return Permute();
      case GroupOp::kBroadcast:
        return Broadcast();
    }
    return absl::InternalError("no such operation");
  }

 private:
  bool by_islands() const { return !mates_.empty(); }
  bool is_here(int rank) const { return layout_.local_index[rank] >= 0; }
  bool is_at(int place, int rank) const {
    const std::vector<int>& ranks = processes_[place].ranks;
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  }

  // A step: what goes to each of the others, and how much comes from each. Nothing is sent, or awaited, where there is nothing.
  template <typename PartsTo, typename BytesFrom>
  absl::Status Exchange(const Places& places, PartsTo parts_to, BytesFrom bytes_from, std::vector<Message>* received) {
    const MessageTag tag{key_.run, layout_.name, key_.op,
                         (int64_t{key_.kind} << 16) | (static_cast<int>(key_.what) << 8) | step_++};
    for (int place : places) {
      if (place == layout_.mine) continue;
      const Parts parts = parts_to(place);
      if (std::all_of(parts.begin(), parts.end(), [](absl::string_view part) { return part.empty(); })) continue;
      if (absl::Status status = wire_.Send(processes_[place].address.uid, tag, parts); !status.ok()) return status;
    }
    received->clear();
    received->resize(processes_.size());
    for (int place : places) {
      const size_t bytes = place == layout_.mine ? 0 : bytes_from(place);
      if (bytes == 0) continue;
      absl::StatusOr<Message> message = wire_.Receive(processes_[place].address.uid, tag);
      if (!message.ok()) return message.status();
      if (message->size != bytes) {
        return absl::InternalError(absl::StrCat("another process sent ", message->size, " bytes for a collective where ", bytes,
                                                " were expected: it does not run the same program"));
      }
      (*received)[place] = *std::move(message);
    }
    return absl::OkStatus();
  }

  void Reduce(char* sum, const char* next, size_t bytes) {
    const Reduction& reduction = seats_[0].reduction;
    reduction.into(sum, next, bytes / reduction.width);
  }

  // `sum` holds what this process adds; the others' come before and after it in the order of the places: everywhere the same bits.
  void ReduceInOrder(const Places& places, const std::vector<Message>& others, size_t offset, Region sum) {
    if (sum.bytes == 0) return;
    const std::string own(sum.data, sum.bytes);
    bool first = true;
    for (int place : places) {
      const char* next = place == layout_.mine ? own.data() : others[place].bytes.get() + offset;
      if (!std::exchange(first, false)) {
        Reduce(sum.data, next, sum.bytes);
      } else {
        std::memcpy(sum.data, next, sum.bytes);
      }
    }
  }

  // The index-th of as many equal parts as there are places.
  Region PartOf(Region whole, const Places& places, size_t index) const {
    const size_t width = seats_[0].reduction.width, count = whole.bytes / width;
    const size_t begin = count * index / places.size(), end = count * (index + 1) / places.size();
    return {whole.data + begin * width, (end - begin) * width};
  }
  Region PartAt(Region whole, const Places& places, int place) const {
    return PartOf(whole, places, std::find(places.begin(), places.end(), place) - places.begin());
  }

  // Afterwards this process's part of the region is the sum over the places.
  absl::Status Scatter(const Places& places, Region region) {
    const Region mine = PartAt(region, places, layout_.mine);
    std::vector<Message> received;
    absl::Status status = Exchange(
        places,
        [&](int place) {
          const Region part = PartAt(region, places, place);
          return Parts{{part.data, part.bytes}};
        },
        [&](int) { return mine.bytes; }, &received);
    if (status.ok()) ReduceInOrder(places, received, 0, mine);
    return status;
  }

  // Everybody gets everybody's part.
  absl::Status Gather(const Places& places, Region region) {
    const Region mine = PartAt(region, places, layout_.mine);
    std::vector<Message> received;
    absl::Status status = Exchange(
        places, [&](int) { return Parts{{mine.data, mine.bytes}}; },
        [&](int place) { return PartAt(region, places, place).bytes; }, &received);
    if (!status.ok()) return status;
    for (int place : places) {
      if (received[place].bytes != nullptr)
        std::memcpy(PartAt(region, places, place).data, received[place].bytes.get(), received[place].size);
    }
    return absl::OkStatus();
  }

  absl::Status AllReduce() {
    if (processes_.size() == 1 || (!by_islands() && bytes_ * layout_.ranks <= kSendWhole)) return AllReduceWhole();
    std::string sum(seats_[0].in[0], bytes_);
    for (size_t l = 1; l < seats_.size(); ++l) Reduce(sum.data(), seats_[l].in[0], bytes_);
    const Region whole{sum.data(), bytes_};
    const Places& near = by_islands() ? mates_ : all_;
    absl::Status status = Scatter(near, whole);
    if (by_islands()) {
      const Region mine = PartAt(whole, mates_, layout_.mine);
      if (status.ok()) status = Scatter(counterparts_, mine);
      if (status.ok()) status = Gather(counterparts_, mine);
    }
    if (status.ok()) status = Gather(near, whole);
    if (!status.ok()) return status;
    for (Contribution& seat : seats_) std::memcpy(seat.out[0], sum.data(), bytes_);
    return status;
  }

  Parts WhatAllBring() const {
    Parts parts;
    for (const Contribution& seat : seats_) parts.push_back({seat.in[0], bytes_});
    return parts;
  }
  size_t BytesOf(int place) const { return processes_[place].ranks.size() * bytes_; }

  absl::Status AllReduceWhole() {
    std::vector<Message> received;
    absl::Status status =
        Exchange(all_, [&](int) { return WhatAllBring(); }, [&](int place) { return BytesOf(place); }, &received);
    if (!status.ok()) return status;
    std::vector<const char*> from(layout_.ranks);
    for (size_t l = 0; l < local_.size(); ++l) from[local_[l]] = seats_[l].in[0];
    for (int place : all_) {
      for (size_t k = 0; k < processes_[place].ranks.size() && place != layout_.mine; ++k) {
        from[processes_[place].ranks[k]] = received[place].bytes.get() + k * bytes_;
      }
    }
    std::string sum(from[0], bytes_);
    for (size_t r = 1; r < layout_.ranks; ++r) Reduce(sum.data(), from[r], bytes_);
    for (Contribution& seat : seats_) std::memcpy(seat.out[0], sum.data(), bytes_);
    return status;
  }

  // The blocks of these places' ranks, one after another, added up over the devices here.
  std::string LocalBlocks(const Places& places) {
    std::string blocks;
    for (int place : places) {
      for (int rank : processes_[place].ranks) {
        const size_t begin = blocks.size();
        blocks.append(seats_[0].in[0] + rank * bytes_, bytes_);
        for (size_t l = 1; l < seats_.size(); ++l) Reduce(blocks.data() + begin, seats_[l].in[0] + rank * bytes_, bytes_);
      }
    }
    return blocks;
  }

  // Those with which a place of this island exchanges across islands, itself among them.
  Places CounterpartsOf(int mate) const {
    const size_t k = std::find(mates_.begin(), mates_.end(), mate) - mates_.begin();
    Places places;
    for (const Places& island : layout_.islands) places.push_back(island[k]);
    return places;
  }

  absl::Status ReduceScatter() {
    const Places& near = by_islands() ? mates_ : all_;
    auto through = [&](int place) { return by_islands() ? CounterpartsOf(place) : Places{place}; };
    std::vector<std::string> blocks(processes_.size());
    for (int place : near) blocks[place] = LocalBlocks(through(place));
    std::string& mine = blocks[layout_.mine];
    std::vector<Message> received;
    absl::Status status =
        Exchange(near, [&](int place) { return Parts{blocks[place]}; }, [&](int) { return mine.size(); }, &received);
    if (!status.ok()) return status;
    ReduceInOrder(near, received, 0, {mine.data(), mine.size()});
    size_t at = 0;  // of this process's own blocks
    if (by_islands()) {
      std::vector<size_t> begin(processes_.size());
      size_t next = 0;
      for (int place : counterparts_) begin[place] = std::exchange(next, next + BytesOf(place));
      at = begin[layout_.mine];
      status = Exchange(
          counterparts_, [&](int place) { return Parts{absl::string_view(mine).substr(begin[place], BytesOf(place))}; },
          [&](int) { return BytesOf(layout_.mine); }, &received);
      if (!status.ok()) return status;
      ReduceInOrder(counterparts_, received, 0, {mine.data() + at, BytesOf(layout_.mine)});
    }
    for (size_t l = 0; l < local_.size(); ++l) std::memcpy(seats_[l].out[0], mine.data() + at + l * bytes_, bytes_);
    return status;
  }

  absl::Status AllGather() {
    std::vector<Message> direct, relayed;
    const Places& first = by_islands() ? counterparts_ : all_;
    absl::Status status =
        Exchange(first, [&](int) { return WhatAllBring(); }, [&](int place) { return BytesOf(place); }, &direct);
    if (!status.ok()) return status;
    std::vector<const char*> from(processes_.size(), nullptr);
    for (int place : first) from[place] = direct[place].bytes.get();
    if (by_islands()) {
      Parts gathered;
      for (int place : counterparts_) {
        const Parts parts = place == layout_.mine ? WhatAllBring() : Parts{{from[place], BytesOf(place)}};
        gathered.insert(gathered.end(), parts.begin(), parts.end());
      }
      auto bytes_of = [&](int mate) {
        size_t total = 0;
        for (int place : CounterpartsOf(mate)) total += BytesOf(place);
        return total;
      };
      status = Exchange(mates_, [&](int) { return gathered; }, bytes_of, &relayed);
      if (!status.ok()) return status;
      for (int mate : mates_) {
        const char* next = relayed[mate].bytes.get();
        if (next == nullptr) continue;
        for (int place : CounterpartsOf(mate)) from[place] = std::exchange(next, next + BytesOf(place));
      }
    }
    for (Contribution& seat : seats_) {
      for (size_t l = 0; l < local_.size(); ++l) std::memcpy(seat.out[0] + local_[l] * bytes_, seats_[l].in[0], bytes_);
      for (int place : all_) {
        const std::vector<int>& ranks = processes_[place].ranks;
        for (size_t k = 0; k < ranks.size() && place != layout_.mine && bytes_ > 0; ++k) {
          std::memcpy(seat.out[0] + ranks[k] * bytes_, from[place] + k * bytes_, bytes_);
        }
      }
    }
    return status;
  }

  absl::Status AllToAll() {
    std::vector<Message> received;
    absl::Status status = Exchange(
        all_,
        [&](int place) {
          Parts parts;
          for (const Contribution& seat : seats_) {
            for (int rank : processes_[place].ranks) parts.push_back({seat.in[rank], bytes_});
          }
          return parts;
        },
        [&](int place) { return BytesOf(place) * local_.size(); }, &received);
    if (!status.ok() || bytes_ == 0) return status;
    for (size_t to = 0; to < local_.size(); ++to) {
      for (size_t from = 0; from < local_.size(); ++from) {
        std::memcpy(seats_[to].out[local_[from]], seats_[from].in[local_[to]], bytes_);
      }
      for (int place : all_) {
        const std::vector<int>& ranks = processes_[place].ranks;
        for (size_t k = 0; k < ranks.size() && place != layout_.mine; ++k) {
          std::memcpy(seats_[to].out[ranks[k]], received[place].bytes.get() + (k * local_.size() + to) * bytes_, bytes_);
        }
      }
    }
    return status;
  }

  // In a message: by the sender's rank, then by the receiver's.
  absl::Status Permute() {
    for (Contribution& seat : seats_) std::sort(seat.targets.begin(), seat.targets.end());
    std::vector<Message> received;
    absl::Status status = Exchange(
        all_,
        [&](int place) {
          Parts parts;
          for (const Contribution& seat : seats_) {
            for (int target : seat.targets) {
              if (is_at(place, target)) parts.push_back({seat.in[0], bytes_});
            }
          }
          return parts;
        },
        [&](int place) {
          size_t total = 0;
          for (const Contribution& seat : seats_) total += seat.source.has_value() && is_at(place, *seat.source) ? bytes_ : 0;
          return total;
        },
        &received);
    if (!status.ok() || bytes_ == 0) return status;
    std::vector<std::pair<char*, const char*>> copies;
    for (int place : all_) {
      const char* next = received[place].bytes.get();
      for (int rank : processes_[place].ranks) {
        for (Contribution& seat : seats_) {
          if (seat.source != rank) continue;
          const int here = layout_.local_index[rank];
          copies.emplace_back(seat.out[0], here >= 0 ? seats_[here].in[0] : std::exchange(next, next + bytes_));
        }
      }
    }
    for (Contribution& seat : seats_) {
      if (!seat.source.has_value()) std::memset(seat.out[0], 0, bytes_);
    }
    for (const auto& [to, from] : copies) std::memcpy(to, from, bytes_);
    return status;
  }

  // The places that have `place`'s in their islands, itself among them; without islands that one alone.
  Places Likes(int place) const {
    for (const Places& island : layout_.islands) {
      const auto at = std::find(island.begin(), island.end(), place);
      if (at == island.end()) continue;
      Places places;
      for (const Places& other : layout_.islands) places.push_back(other[at - island.begin()]);
      return places;
    }
    return {place};
  }

  // The root's process to one of each other island, then these to the others of their islands.
  absl::Status Broadcast() {
    const int root = seats_[0].source.value_or(0);
    const auto at_root = [&](int place) { return is_at(place, root); };
    const Places first = Likes(static_cast<int>(std::find_if(all_.begin(), all_.end(), at_root) - all_.begin()));
    const auto is_first = [&](int place) { return std::find(first.begin(), first.end(), place) != first.end(); };
    const char* from = is_here(root) ? seats_[layout_.local_index[root]].in[0] : nullptr;
    const auto what_is_here = [&](int) { return from != nullptr ? Parts{{from, bytes_}} : Parts(); };
    std::vector<Message> crossed, handed_on;
    absl::Status status = Exchange(
        is_first(layout_.mine) ? first : Places(), what_is_here, [&](int place) { return at_root(place) ? bytes_ : 0; },
        &crossed);
    for (const Message& message : crossed) from = message.bytes != nullptr ? message.bytes.get() : from;
    if (!status.ok()) return status;
    status = Exchange(
        by_islands() ? mates_ : all_, [&](int place) { return is_first(layout_.mine) ? what_is_here(place) : Parts(); },
        [&](int place) { return is_first(place) ? bytes_ : 0; }, &handed_on);
    if (!status.ok() || bytes_ == 0) return status;
    for (const Message& message : handed_on) from = message.bytes != nullptr ? message.bytes.get() : from;
    for (Contribution& seat : seats_) {
      if (seat.out[0] != from) std::memcpy(seat.out[0], from, bytes_);
    }
    return status;
  }

  Wire& wire_;
  const GroupLayout& layout_;
  const OperationKey& key_;
  std::vector<Contribution>& seats_;
  const std::vector<GroupLayout::Process>& processes_;
  const std::vector<int>& local_;
  const size_t bytes_;
  Places all_;
  Places mates_;         // the processes of this island, if there are several islands
  Places counterparts_;  // those that have this one's place in their island, itself among them
  int step_ = 0;
};

}  // namespace

absl::Status PerformOperation(Wire& wire, const GroupLayout& layout, const OperationKey& key, std::vector<Contribution>& seats) {
  return Operation(wire, layout, key, seats).Perform();
}

}  // namespace pw::pjrt_cpu
