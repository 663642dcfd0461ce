#include "pathways/controller/cluster/members/starved_hosts.h"

#include "pathways/base/log.h"

namespace pw::controller {

bool StarvedHosts::IsStarved(HostId host, absl::Duration silence, absl::Time now) {
  if (!options_.watch_process) return false;
  if (silence <= options_.heartbeat_limit / 2) {
    watched_.erase(host);
    return false;
  }
  const auto [it, added] = watched_.try_emplace(host);
  Watched& watched = it->second;
  if (added) watched.waits = options_.watch_process(pid_of_(host));
  const bool known = watched.seen != absl::InfinitePast();
  if (watched.waits(now)) watched.seen = now;
  if (!known && watched.seen == now) {
    PW_LOG_WARNING << name_of_(host) << " has been silent for " << absl::FormatDuration(silence)
                   << " and waits for a processor: this machine has more to do than its processors can";
  }
  // Its threads run one after another, so one look may find none of them waiting.
  return now - watched.seen < options_.heartbeat_limit / 4 && silence <= kLongest * options_.heartbeat_limit;
}

}  // namespace pw::controller
