#include "pathways/dataflow/progress/edge_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"

namespace pw::dataflow {
namespace {

std::optional<size_t> IndexIn(const std::vector<HostId>& hosts, HostId host) {
  auto it = std::lower_bound(hosts.begin(), hosts.end(), host);
  if (it == hosts.end() || *it != host) return std::nullopt;
  return it - hosts.begin();
}

absl::Status Stranger(HostId from, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(ToString(from), " sent ", what, " of an edge in which it has no such part"));
}

Counts ToCounts(const absl::flat_hash_map<uint32_t, uint64_t>& sent) {
  std::vector<std::pair<uint32_t, uint64_t>> sorted(sent.begin(), sent.end());
  std::sort(sorted.begin(), sorted.end());
  Counts counts;
  for (const auto& [shard, messages] : sorted) counts.Append({shard, 1, messages});
  return counts;
}

// Splits the stretches where the host changes; calls f(host, part of a stretch on that host), in the order of the shards.
template <class F>
void ForEachHostPart(const Counts& counts, const Placement& placement, F f) {
  for (const Counts::Stretch& run : counts.stretches()) {
    const uint32_t end = run.first + run.length;
    for (uint32_t at = run.first; at < end;) {
      const uint32_t part_end = std::min(end, placement.EndOfHostAt(at));
      f(placement.HostOf(at), Counts::Stretch{at, part_end - at, run.messages});
      at = part_end;
    }
  }
}

}  // namespace

EdgeProgress::EdgeProgress(const EdgePlan* plan)
    : plan_(plan),
      sources_open_(static_cast<uint32_t>(plan->sources.size())),
      destinations_(plan->destinations.size()),
      open_(static_cast<uint32_t>(plan->destinations.size())) {
  if (plan_->single) {
    for (Destination& shard : destinations_) shard.expected = plan_->SourcesPerDestination();
    return;
  }
  if (plan_->direct) {
    unreported_ = static_cast<uint32_t>(plan_->reporters.size());
    reported_.resize(unreported_);
    return;
  }
  up_.way = Report::Way::kUp;
  up_reported_.resize(plan_->up_children.size());
  if (!plan_->sources.empty()) up_missing_ = static_cast<uint32_t>(plan_->up_children.size()) + 1;
  down_waits_ = !plan_->destinations.empty();
}

uint64_t EdgeProgress::PairNumber(uint32_t source, uint32_t destination) const {
  if (plan_->kind == EdgeKind::kOneToOne) return uint64_t{source} + 1;
  return uint64_t{source} * plan_->to->num_shards() + destination + 1;
}

// Returns whether the number is that of a pair with this destination shard. If it is, sets `source` to the source shard.
bool EdgeProgress::IsPair(uint64_t sequence, uint32_t destination, uint32_t* source) const {
  const uint64_t quotient = (sequence - 1) / (plan_->kind == EdgeKind::kOneToOne ? 1 : plan_->to->num_shards());
  if (sequence == 0 || quotient >= plan_->from->num_shards()) return false;
  *source = static_cast<uint32_t>(quotient);
  return plan_->Allows(*source, destination) && PairNumber(*source, destination) == sequence;
}

bool EdgeProgress::MaySend(uint32_t source, uint32_t destination) const {
  return plan_->Allows(source, destination) && !(plan_->single && sent_pairs_.contains(PairNumber(source, destination)));
}

uint64_t EdgeProgress::Sent(uint32_t source, uint32_t destination) {
  if (plan_->single) {
    const uint64_t pair = PairNumber(source, destination);
    PW_CHECK(sent_pairs_.insert(pair).second);
    return pair;
  }
  ++sent_[destination];
  return ++last_sequence_[plan_->to->HostOf(destination)];
}

bool EdgeProgress::HasSentAll(uint32_t source) const {
  if (!plan_->single) return true;
  if (plan_->kind == EdgeKind::kOneToOne) return sent_pairs_.contains(PairNumber(source, source));
  for (uint32_t to = 0; to < plan_->to->num_shards(); ++to) {
    if (!sent_pairs_.contains(PairNumber(source, to))) return false;
  }
  return true;
}

void EdgeProgress::SourceDone(uint32_t source, const absl::Status& status, Effects* effects) {
  PW_CHECK(sources_open_ > 0);
  if (plan_->single) {
    SingleDone(source, status, effects);
    if (--sources_open_ == 0) sent_pairs_ = {};
    return;
  }
  if (!status.ok()) AddPoisons({{source, status}}, &own_poisons_);
  if (--sources_open_ > 0) return;
  if (plan_->direct) {
    ReportOwn(effects);
  } else {
    Report own;
    own.counts = ToCounts(sent_);
    own.poisons = std::move(own_poisons_);
    Contribute(own, effects);
  }
  sent_ = {};
  last_sequence_ = {};
  own_poisons_ = {};
}

void EdgeProgress::SingleDone(uint32_t source, const absl::Status& status, Effects* effects) {
  const bool one_to_one = plan_->kind == EdgeKind::kOneToOne;
  const uint32_t first = one_to_one ? source : 0, end = one_to_one ? source + 1 : plan_->to->num_shards();
  for (uint32_t to = first; to < end; ++to) {
    const uint64_t pair = PairNumber(source, to);
    if (sent_pairs_.erase(pair) > 0) continue;
    PW_CHECK(!status.ok());
    effects->substitutes.push_back({to, pair, status});
  }
}

void EdgeProgress::ReportOwn(Effects* effects) {
  std::vector<Report> reports(plan_->report_to.size());
  ForEachHostPart(ToCounts(sent_), *plan_->to,
                  [&](HostId host, Counts::Stretch part) { reports[*IndexIn(plan_->report_to, host)].counts.Append(part); });
  for (const Poison& poison : own_poisons_) {
    if (!plan_->poisons_all()) {
      reports[*IndexIn(plan_->report_to, plan_->to->HostOf(poison.source_shard))].poisons.push_back(poison);
      continue;
    }
    for (Report& report : reports) report.poisons.push_back(poison);
  }
  for (size_t i = 0; i < reports.size(); ++i) {
    if (plan_->report_to[i] != plan_->self) {
      effects->reports.push_back({plan_->report_to[i], std::move(reports[i])});
      continue;
    }
    reported_[*IndexIn(plan_->reporters, plan_->self)] = true;
    --unreported_;
    Expect(plan_->self, reports[i]);
  }
  CloseComplete(effects);
}

absl::StatusOr<bool> EdgeProgress::Received(HostId from, uint64_t sequence, uint32_t destination, const absl::Status& error,
                                            Effects* effects) {
  auto it = std::lower_bound(plan_->destinations.begin(), plan_->destinations.end(), destination);
  if (it == plan_->destinations.end() || *it != destination) return Stranger(from, "a tuple for a shard that is not here,");
  const size_t index = it - plan_->destinations.begin();
  if (plan_->single) return ReceivedSingle(from, sequence, index, error, effects);
  const bool can_send =
      plan_->kind == EdgeKind::kOneToOne ? plan_->from->HostOf(destination) == from : plan_->from->hosts().Contains(from);
  if (!can_send) return Stranger(from, "a tuple");
  Destination& shard = destinations_[index];
  if (shard.closed) return false;  // it has received all its messages
  // Messages from this host itself are never duplicated.
  if (from != plan_->self && !seen_[from].Insert(sequence)) return false;
  ++shard.received;
  Balance(from, index, -1);
  CloseIfComplete(index, effects);
  return true;
}

absl::StatusOr<bool> EdgeProgress::ReceivedSingle(HostId from, uint64_t sequence, size_t index, const absl::Status& error,
                                                  Effects* effects) {
  uint32_t source = 0;
  if (!IsPair(sequence, plan_->destinations[index], &source) || plan_->from->HostOf(source) != from)
    return Stranger(from, "a tuple");
  if (destinations_[index].closed || !seen_pairs_.insert(sequence).second) return false;
  TakeSingle(index, source, error, effects);
  return true;
}

void EdgeProgress::TakeSingle(size_t index, uint32_t source, const absl::Status& error, Effects* effects) {
  if (!error.ok()) PoisonShard(index, source, error);
  ++destinations_[index].received;
  CloseIfComplete(index, effects);
}

absl::Status EdgeProgress::OnReport(HostId from, const Report& report, Effects* effects) {
  if (plan_->single) return Stranger(from, "a report");
  if (absl::Status status = CheckReport(from, report); !status.ok()) return status;
  if (plan_->direct != (report.way == Report::Way::kDirect)) return Stranger(from, "a report that takes another way");
  switch (report.way) {
    case Report::Way::kDirect:
      return OnDirect(from, report, effects);
    case Report::Way::kUp:
      return OnUp(from, report, effects);
    case Report::Way::kDown:
      return OnDown(from, report, effects);
  }
  return Stranger(from, "a report of unknown way");
}

absl::Status EdgeProgress::CheckReport(HostId from, const Report& report) const {
  if (absl::Status status = Counts::Check(report.counts.stretches(), plan_->to->num_shards()); !status.ok()) return status;
  if (plan_->poisons_all() && report.poisons.size() > 1) return Stranger(from, "a report with more than one error");
  uint64_t next = 0;
  for (const Poison& poison : report.poisons) {
    if (poison.status.ok() || poison.source_shard >= plan_->from->num_shards() || poison.source_shard < next)
      return Stranger(from, "the error of a shard");
    next = uint64_t{poison.source_shard} + 1;
  }
  return absl::OkStatus();
}

absl::Status EdgeProgress::OnDirect(HostId from, const Report& report, Effects* effects) {
  const std::optional<size_t> reporter = IndexIn(plan_->reporters, from);
  if (!reporter.has_value() || from == plan_->self) return Stranger(from, "a report");
  if (reported_[*reporter]) return absl::OkStatus();
  reported_[*reporter] = true;
  --unreported_;
  Expect(from, report);
  CloseComplete(effects);
  return absl::OkStatus();
}

absl::Status EdgeProgress::OnUp(HostId from, const Report& report, Effects* effects) {
  const std::optional<size_t> child = IndexIn(plan_->up_children, from);
  if (!child.has_value()) return Stranger(from, "a report");
  if (up_reported_[*child]) return absl::OkStatus();
  up_reported_[*child] = true;
  Contribute(report, effects);
  return absl::OkStatus();
}

void EdgeProgress::Contribute(const Report& report, Effects* effects) {
  up_.counts.Add(report.counts);
  AddPoisons(report.poisons, &up_.poisons);
  if (--up_missing_ > 0) return;
  Report sum = std::exchange(up_, {});
  if (plan_->up_parent.has_value()) {
    effects->reports.push_back({*plan_->up_parent, std::move(sum)});
    return;
  }
  sum.way = Report::Way::kDown;
  if (plan_->down_root != plan_->self) {
    effects->reports.push_back({plan_->down_root, std::move(sum)});
  } else {
    PassDown(sum, effects);
  }
}

absl::Status EdgeProgress::OnDown(HostId from, const Report& report, Effects* effects) {
  if (plan_->destinations.empty() || from != plan_->down_parent.value_or(plan_->up_root) || from == plan_->self)
    return Stranger(from, "a report from above");
  if (down_waits_) PassDown(report, effects);
  return absl::OkStatus();
}

// Sends each child the counts for its subtree.
void EdgeProgress::PassDown(const Report& report, Effects* effects) {
  down_waits_ = false;
  std::vector<Report> parts(plan_->down_children.size() + 1);  // the first is this host's own
  const HostSet& hosts = plan_->to->hosts();
  ForEachHostPart(report.counts, *plan_->to, [&](HostId host, Counts::Stretch part) {
    // A host lies in the subtree of the last child at or before it; before the first child there is only this host.
    const auto& children = plan_->down_children;
    parts[std::upper_bound(children.begin(), children.end(), *hosts.PositionOf(host)) - children.begin()].counts.Append(part);
  });
  for (size_t i = 1; i < parts.size(); ++i) {
    parts[i].way = Report::Way::kDown;
    parts[i].poisons = report.poisons;
    effects->reports.push_back({hosts.At(plan_->down_children[i - 1]), std::move(parts[i])});
  }
  parts[0].poisons = report.poisons;
  Expect(plan_->self, parts[0]);
  CloseComplete(effects);
}

void EdgeProgress::LoseHost(HostId host, const absl::Status& status, Effects* effects) {
  PW_CHECK(plan_->outlives_hosts);
  if (plan_->destinations.empty() || !plan_->from->hosts().Contains(host)) return;
  if (plan_->single) return LoseSingles(host, status, effects);
  LoseReported(host, status);
  CloseComplete(effects);
}

void EdgeProgress::LoseSingles(HostId host, const absl::Status& status, Effects* effects) {
  const auto lose = [&](size_t index, uint32_t source) {
    if (destinations_[index].closed || !seen_pairs_.insert(PairNumber(source, plan_->destinations[index])).second) return;
    TakeSingle(index, source, status, effects);
  };
  const std::vector<uint32_t> sources = plan_->from->ShardsOf(host);
  for (size_t index = 0; index < destinations_.size(); ++index) {
    const uint32_t own = plan_->destinations[index];
    if (plan_->kind != EdgeKind::kOneToOne) {
      for (uint32_t source : sources) lose(index, source);
    } else if (plan_->from->HostOf(own) == host) {
      lose(index, own);
    }
  }
}

void EdgeProgress::LoseReported(HostId host, const absl::Status& status) {
  const std::optional<size_t> reporter = IndexIn(plan_->reporters, host);
  if (!reporter.has_value()) return;
  const bool one_to_one = plan_->kind == EdgeKind::kOneToOne, unreported = !reported_[*reporter];
  const uint32_t first_source = plan_->from->ShardsOf(host).front();
  for (size_t index = 0; index < destinations_.size(); ++index) {
    const uint32_t source = one_to_one ? plan_->destinations[index] : first_source;
    if (one_to_one && plan_->from->HostOf(source) != host) continue;
    auto it = balances_.find({host, index});
    const int64_t missing = it == balances_.end() ? 0 : it->second;
    if (it != balances_.end()) balances_.erase(it);
    destinations_[index].expected -= static_cast<uint64_t>(missing);  // negative without a report: no more messages are expected
    if (!status.ok() && (unreported || missing > 0)) PoisonShard(index, source, status);
  }
  if (!unreported) return;
  reported_[*reporter] = true;
  --unreported_;
}

// Adds to the number of messages that the host has announced to a destination shard and that have not come.
void EdgeProgress::Balance(HostId from, size_t index, int64_t messages) {
  if (!plan_->outlives_hosts || from == plan_->self) return;
  auto it = balances_.try_emplace({from, index}, 0).first;
  it->second += messages;
  if (it->second == 0) balances_.erase(it);
}

void EdgeProgress::PoisonShard(size_t index, uint32_t source, const absl::Status& status) {
  auto [it, fresh] = shard_poisons_.try_emplace(index, Poison{source, status});
  if (!fresh && source < it->second.source_shard) it->second = {source, status};
}

void EdgeProgress::Expect(HostId from, const Report& report) {
  for (const Counts::Stretch& run : report.counts.stretches()) {
    const std::vector<uint32_t>& shards = plan_->destinations;
    for (auto it = std::lower_bound(shards.begin(), shards.end(), run.first); it != shards.end() && *it - run.first < run.length;
         ++it) {
      destinations_[it - shards.begin()].expected += run.messages;
      Balance(from, it - shards.begin(), static_cast<int64_t>(run.messages));
    }
  }
  AddPoisons(report.poisons, &poisons_);
}

void EdgeProgress::AddPoisons(const std::vector<Poison>& poisons, std::vector<Poison>* to) const {
  for (const Poison& poison : poisons) {
    auto it = std::lower_bound(to->begin(), to->end(), poison.source_shard,
                               [](const Poison& p, uint32_t shard) { return p.source_shard < shard; });
    if (it == to->end() || it->source_shard != poison.source_shard) to->insert(it, poison);
  }
  if (plan_->poisons_all() && to->size() > 1) to->resize(1);
}

void EdgeProgress::CloseComplete(Effects* effects) {
  if (!AllReported()) return;
  for (size_t i = 0; i < destinations_.size(); ++i) CloseIfComplete(i, effects);
}

void EdgeProgress::CloseIfComplete(size_t index, Effects* effects) {
  Destination& shard = destinations_[index];
  if (!AllReported() || shard.closed || shard.received < shard.expected) return;
  shard.closed = true;
  effects->closed.push_back({plan_->destinations[index], StatusOf(index)});
  if (--open_ > 0) return;
  seen_ = {};
  seen_pairs_ = {};
  balances_ = {};
  shard_poisons_ = {};
}

// Returns the error of the lowest source shard that has poisoned the destination shard, or OK.
absl::Status EdgeProgress::StatusOf(size_t index) const {
  const Poison* lowest = nullptr;
  if (auto it = shard_poisons_.find(index); it != shard_poisons_.end()) lowest = &it->second;
  for (const Poison& poison : poisons_) {
    const bool hits = plan_->poisons_all() || poison.source_shard == plan_->destinations[index];
    if (hits && (lowest == nullptr || poison.source_shard < lowest->source_shard)) lowest = &poison;
  }
  return lowest == nullptr ? absl::OkStatus() : lowest->status;
}

}  // namespace pw::dataflow
