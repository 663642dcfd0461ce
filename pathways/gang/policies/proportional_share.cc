#include "pathways/gang/policies/proportional_share.h"

#include <algorithm>
#include <cmath>

namespace pw::gang {

int64_t ProportionalShare::RankOf(const Account& account) const {
  return static_cast<int64_t>(std::floor(account.virtual_us / grain_us_));
}

int64_t ProportionalShare::ClientRank(ClientId client) const {
  auto it = accounts_.find(client);
  return it == accounts_.end() ? 0 : RankOf(it->second);
}

bool ProportionalShare::SetShare(ClientId client, const Share& share) {
  Account& account = accounts_[client];
  const double weight = std::max(share.weight, kLeastWeight);
  if (weight == account.weight) return false;
  account.older_weight = account.weight;
  account.older = account.outstanding;
  account.weight = weight;
  return false;  // the rank moves with the next charge
}

bool ProportionalShare::OnActive(ClientId client) {
  Account& account = accounts_[client];
  const int64_t before = RankOf(account);
  account.virtual_us = std::max(account.virtual_us, island_us_);
  return RankOf(account) != before;
}

bool ProportionalShare::OnGrant(ClientId client, int64_t predicted_device_ns) {
  Account& account = accounts_[client];
  island_us_ = std::max(island_us_, account.virtual_us);
  ++account.outstanding;
  return Charge(account, predicted_device_ns, account.weight);
}

// Corrects the charge at the weight at which it was made.
bool ProportionalShare::OnDone(ClientId client, int64_t predicted_device_ns, int64_t measured_device_ns) {
  Account& account = accounts_[client];
  double weight = account.weight;
  if (account.older > 0) {
    --account.older;
    weight = account.older_weight;
  }
  account.outstanding = std::max(0, account.outstanding - 1);
  return Charge(account, measured_device_ns - predicted_device_ns, weight);
}

bool ProportionalShare::Charge(Account& account, int64_t device_ns, double weight) {
  const int64_t before = RankOf(account);
  account.virtual_us += static_cast<double>(device_ns) / 1000 / weight;
  return RankOf(account) != before;
}

}  // namespace pw::gang
