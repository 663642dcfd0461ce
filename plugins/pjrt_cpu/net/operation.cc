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

// All-reduces with at most this many bytes of contributions, over all devices, are sent whole.
constexpr size_t kSendWhole = 16 << 10;

using Parts = std::vector<absl::string_view>;
using Places = std::vector<int>;

// A range of bytes of an array.
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
    islands_ = layout.islands.empty() ? std::vector<Places>{all_} : layout.islands;
    seats_of_.resize(processes_.size());
    for (size_t i = 0; i < islands_.size(); ++i) {
      lanes_ = std::max(lanes_, islands_[i].size());
      for (size_t k = 0; k < islands_[i].size(); ++k) seats_of_[islands_[i][k]] = {i, k};
    }
    island_ = seats_of_[layout.mine].island;
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
  bool by_islands() const { return islands_.size() > 1; }
  // Returns the places of this island, or all places if there is only one island.
  const Places& mates() const { return islands_[island_]; }
  bool is_here(int rank) const { return layout_.local_index[rank] >= 0; }
  bool is_at(int place, int rank) const {
    const std::vector<int>& ranks = processes_[place].ranks;
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  }

  // Performs one step: sends each place its parts, and receives the given number of bytes from each. Omits empty messages.
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

  // Adds the messages of other places to this process's own `sum`, in the order of the places, from `offsets` in the messages. The order is
  // the same in every process, and so are the bits.
  void ReduceInOrder(const Places& places, const std::vector<Message>& others, const std::vector<size_t>& offsets, Region sum) {
    if (sum.bytes == 0) return;
    const std::string own(sum.data, sum.bytes);
    bool first = true;
    for (int place : places) {
      const char* next = place == layout_.mine ? own.data() : others[place].bytes.get() + offsets[place];
      if (!std::exchange(first, false)) {
        Reduce(sum.data, next, sum.bytes);
      } else {
        std::memcpy(sum.data, next, sum.bytes);
      }
    }
  }

  // Returns parts `begin` to `end` of `parts` equal parts.
  Region PartOf(Region whole, size_t begin, size_t end, size_t parts) const {
    const size_t width = seats_[0].reduction.width, count = whole.bytes / width;
    begin = count * begin / parts, end = count * end / parts;
    return {whole.data + begin * width, (end - begin) * width};
  }

  // The share of the k-th of n owners of `total` items. Item i belongs to owner i * n / total, so shares are contiguous.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  static Range ShareOf(size_t k, size_t n, size_t total) { return {(k * total + n - 1) / n, ((k + 1) * total + n - 1) / n}; }

  // Lanes: the parts of an array to be summed, as many as the largest island has processes. Each island assigns all lanes to its
  // processes. The owners of a lane in all islands exchange their islands' sums of it.
  using Lanes = Range;
  Lanes LanesOf(int place) const { return ShareOf(seats_of_[place].k, islands_[seats_of_[place].island].size(), lanes_); }
  Lanes SharedLanes(int place) const {
    const Lanes mine = LanesOf(layout_.mine), its = LanesOf(place);
    return {std::max(mine.begin, its.begin), std::min(mine.end, its.end)};
  }
  int OwnerOf(size_t lane, const Places& island) const { return island[lane * island.size() / lanes_]; }
  Region RegionOf(Region whole, int place) const {
    const Lanes lanes = LanesOf(place);
    return PartOf(whole, lanes.begin, lanes.end, lanes_);
  }
  // Returns the part of a lane that `island`'s owner sums for all islands.
  Region PartOfLane(Region whole, size_t lane, size_t island) const {
    return PartOf(PartOf(whole, lane, lane + 1, lanes_), island, island + 1, islands_.size());
  }
  // Returns the parts, summed by `island`, of the lanes that this process shares with another.
  Parts SharedParts(Region whole, int place, size_t island) const {
    Parts parts;
    const Lanes shared = SharedLanes(place);
    for (size_t lane = shared.begin; lane < shared.end; ++lane) {
      const Region part = PartOfLane(whole, lane, island);
      parts.push_back({part.data, part.bytes});
    }
    return parts;
  }
  static size_t BytesIn(const Parts& parts) {
    size_t bytes = 0;
    for (absl::string_view part : parts) bytes += part.size();
    return bytes;
  }
  Places Others() const {  // processes of other islands
    Places others;
    for (int place : all_) {
      if (seats_of_[place].island != island_) others.push_back(place);
    }
    return others;
  }

  // Sums inside the island. Afterwards each process holds its island's sum of its lanes.
  absl::Status ScatterInside(Region whole) {
    const Region mine = RegionOf(whole, layout_.mine);
    std::vector<Message> received;
    absl::Status status = Exchange(
        mates(),
        [&](int place) {
          const Region part = RegionOf(whole, place);
          return Parts{{part.data, part.bytes}};
        },
        [&](int) { return mine.bytes; }, &received);
    if (status.ok()) ReduceInOrder(mates(), received, std::vector<size_t>(processes_.size()), mine);
    return status;
  }

  // Gives every process of this island the lanes of all.
  absl::Status GatherInside(Region whole) {
    const Region mine = RegionOf(whole, layout_.mine);
    std::vector<Message> received;
    absl::Status status = Exchange(
        mates(), [&](int) { return Parts{{mine.data, mine.bytes}}; }, [&](int place) { return RegionOf(whole, place).bytes; },
        &received);
    if (!status.ok()) return status;
    for (int place : mates()) {
      if (received[place].bytes != nullptr)
        std::memcpy(RegionOf(whole, place).data, received[place].bytes.get(), received[place].size);
    }
    return absl::OkStatus();
  }

  // Sums this island's parts of this process's lanes over all islands, then gives every owner all parts.
  absl::Status ExchangeAcross(Region whole) {
    std::vector<Message> received;
    const Places others = Others();
    absl::Status status = Exchange(
        others, [&](int place) { return SharedParts(whole, place, seats_of_[place].island); },
        [&](int place) { return BytesIn(SharedParts(whole, place, island_)); }, &received);
    if (!status.ok()) return status;
    const Lanes lanes = LanesOf(layout_.mine);
    std::vector<size_t> offsets(processes_.size());
    for (size_t lane = lanes.begin; lane < lanes.end; ++lane) {
      Places owners;
      for (const Places& island : islands_) owners.push_back(OwnerOf(lane, island));
      const Region part = PartOfLane(whole, lane, island_);
      ReduceInOrder(owners, received, offsets, part);
      for (int owner : owners) offsets[owner] += part.bytes;
    }
    status = Exchange(
        others, [&](int place) { return SharedParts(whole, place, island_); },
        [&](int place) { return BytesIn(SharedParts(whole, place, seats_of_[place].island)); }, &received);
    if (!status.ok()) return status;
    for (int place : others) {
      const char* next = received[place].bytes.get();
      const Lanes shared = SharedLanes(place);
      for (size_t lane = shared.begin; lane < shared.end && next != nullptr; ++lane) {
        const Region part = PartOfLane(whole, lane, seats_of_[place].island);
        std::memcpy(part.data, std::exchange(next, next + part.bytes), part.bytes);
      }
    }
    return absl::OkStatus();
  }

  absl::Status AllReduce() {
    if (processes_.size() == 1 || (!by_islands() && bytes_ * layout_.ranks <= kSendWhole)) return AllReduceWhole();
    std::string sum(seats_[0].in[0], bytes_);
    for (size_t l = 1; l < seats_.size(); ++l) Reduce(sum.data(), seats_[l].in[0], bytes_);
    const Region whole{sum.data(), bytes_};
    absl::Status status = ScatterInside(whole);
    if (status.ok() && by_islands()) status = ExchangeAcross(whole);
    if (status.ok()) status = GatherInside(whole);
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

  // Returns the blocks of these places' ranks, one after another, summed over this process's devices.
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

  // Returns the process of `island` that exchanges data with other islands for `place`. In the island of `place` that is `place`
  // itself. In another island it is the process at the corresponding position.
  int DeputyOf(int place, size_t island) const {
    const auto [home, k] = seats_of_[place];
    return islands_[island][k * islands_[island].size() / islands_[home].size()];
  }
  // Returns the places for which `deputy` exchanges data in its island, including itself.
  Places Through(int deputy) const {
    Places places;
    const auto [home, k] = seats_of_[deputy];
    for (const Places& island : islands_) {
      const Range range = ShareOf(k, islands_[home].size(), island.size());
      places.insert(places.end(), island.begin() + range.begin, island.begin() + range.end);
    }
    return places;
  }
  // Returns whether `place` is this process's deputy in another island.
  bool is_deputy(int place) const { return place != layout_.mine && DeputyOf(layout_.mine, seats_of_[place].island) == place; }

  absl::Status ReduceScatter() {
    std::vector<std::string> blocks(processes_.size());
    for (int place : mates()) blocks[place] = LocalBlocks(Through(place));
    std::string& mine = blocks[layout_.mine];
    std::vector<Message> received;
    absl::Status status =
        Exchange(mates(), [&](int place) { return Parts{blocks[place]}; }, [&](int) { return mine.size(); }, &received);
    if (!status.ok()) return status;
    const std::vector<size_t> whole_messages(processes_.size());
    ReduceInOrder(mates(), received, whole_messages, {mine.data(), mine.size()});
    std::vector<absl::string_view> for_place(processes_.size());
    size_t next = 0;
    for (int place : Through(layout_.mine)) {
      for_place[place] = absl::string_view(mine).substr(next, BytesOf(place));
      next += BytesOf(place);
    }
    const size_t at = for_place[layout_.mine].data() - mine.data();  // offset of this process's own blocks
    status = Exchange(
        Others(), [&](int place) { return Parts{for_place[place]}; },
        [&](int place) { return is_deputy(place) ? BytesOf(layout_.mine) : 0; }, &received);
    if (!status.ok()) return status;
    Places deputies;
    for (size_t island = 0; island < islands_.size(); ++island) deputies.push_back(DeputyOf(layout_.mine, island));
    ReduceInOrder(deputies, received, whole_messages, {mine.data() + at, BytesOf(layout_.mine)});
    for (size_t l = 0; l < local_.size(); ++l) std::memcpy(seats_[l].out[0], mine.data() + at + l * bytes_, bytes_);
    return status;
  }

  // Collects all contributions by place: from other islands to a deputy here, and from the deputy to the others of this island.
  absl::Status Collect(std::vector<Message>* direct, std::vector<Message>* relayed, std::vector<const char*>* from) {
    const Places mine = Through(layout_.mine);
    absl::Status status = Exchange(
        Others(), [&](int place) { return is_deputy(place) ? WhatAllBring() : Parts(); },
        [&](int place) { return std::find(mine.begin(), mine.end(), place) != mine.end() ? BytesOf(place) : 0; }, direct);
    if (!status.ok()) return status;
    Parts gathered;
    for (int place : mine) {
      (*from)[place] = (*direct)[place].bytes.get();
      const Parts parts = place == layout_.mine ? WhatAllBring() : Parts{{(*from)[place], BytesOf(place)}};
      gathered.insert(gathered.end(), parts.begin(), parts.end());
    }
    auto bytes_of = [&](int mate) {
      size_t total = 0;
      for (int place : Through(mate)) total += BytesOf(place);
      return total;
    };
    status = Exchange(mates(), [&](int) { return gathered; }, bytes_of, relayed);
    if (!status.ok()) return status;
    for (int mate : mates()) {
      const char* next = (*relayed)[mate].bytes.get();
      if (next == nullptr) continue;
      for (int place : Through(mate)) (*from)[place] = std::exchange(next, next + BytesOf(place));
    }
    return status;
  }

  absl::Status AllGather() {
    std::vector<Message> direct, relayed;
    std::vector<const char*> from(processes_.size(), nullptr);
    absl::Status status = Collect(&direct, &relayed, &from);
    if (!status.ok()) return status;
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

  // Orders the blocks of a message by the sender's rank, then by the receiver's.
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

  // Sends from the root's process to one process of each other island, and from there to the others of that island.
  absl::Status Broadcast() {
    const int root = seats_[0].source.value_or(0);
    const auto at_root = [&](int place) { return is_at(place, root); };
    const int source = static_cast<int>(std::find_if(all_.begin(), all_.end(), at_root) - all_.begin());
    Places first;
    for (size_t island = 0; island < islands_.size(); ++island) first.push_back(DeputyOf(source, island));
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
        mates(), [&](int place) { return is_first(layout_.mine) ? what_is_here(place) : Parts(); },
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
  struct Seat {
    size_t island = 0;
    size_t k = 0;  // position in its island
  };
  Places all_;
  std::vector<Places> islands_;  // one with all places if there is a single island
  std::vector<Seat> seats_of_;   // per place
  size_t island_ = 0;            // of this process
  size_t lanes_ = 0;
  int step_ = 0;
};

}  // namespace

absl::Status PerformOperation(Wire& wire, const GroupLayout& layout, const OperationKey& key, std::vector<Contribution>& seats) {
  return Operation(wire, layout, key, seats).Perform();
}

}  // namespace pw::pjrt_cpu
