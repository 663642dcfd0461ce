#include "pathways/controller/hosts/host_losses.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/program/program.h"

namespace pw::controller {
namespace {
constexpr size_t kRemembered = 4096;
}  // namespace

void HostLosses::Explain(HostId reporter, const absl::Status& error, Then then) {
  const std::optional<HostId> unreachable = UnreachableHost(error);
  if (!unreachable.has_value()) return std::move(then)(error);
  if (auto lost = lost_.find(*unreachable); lost != lost_.end())
    return std::move(then)(program::WithLocationOf(error, lost->second));
  waiting_.push_back({reporter, *unreachable, clock_->Now() + patience_, error, std::move(then)});
}

void HostLosses::OnHostLost(HostId host, const absl::Status& loss) {
  if (lost_.insert({host, loss}).second) lost_order_.push_back(host);
  if (lost_order_.size() > kRemembered) {
    lost_.erase(lost_order_.front());
    lost_order_.pop_front();
  }
  const auto named =
      std::stable_partition(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.unreachable != host; });
  std::vector<Waiting> explained(std::make_move_iterator(named), std::make_move_iterator(waiting_.end()));
  waiting_.erase(named, waiting_.end());
  for (Waiting& one : explained) std::move(one.then)(program::WithLocationOf(one.error, loss));
}

void HostLosses::OnTick(absl::Time now) {
  const auto due = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.until > now; });
  std::vector<Waiting> ended(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(due));
  waiting_.erase(waiting_.begin(), due);
  for (Waiting& one : ended) std::move(one.then)(Cut(one));
}

absl::Status HostLosses::Of(HostId host) const {
  const auto lost = lost_.find(host);
  return lost == lost_.end() ? absl::DataLossError(absl::StrCat(ToString(host), " is gone")) : lost->second;
}

std::string HostLosses::NameOf(HostId host) const {
  const resource::Host* known = topology_->FindHost(host);
  return known == nullptr ? ToString(host) : topology_->Describe(*known);
}

absl::Status HostLosses::Cut(const Waiting& waiting) const {
  return absl::UnavailableError(absl::StrCat(NameOf(waiting.reporter), " cannot reach ", NameOf(waiting.unreachable),
                                             ", and the controller hears from both: look at the network between them (",
                                             waiting.error.message(), ")"));
}

}  // namespace pw::controller
