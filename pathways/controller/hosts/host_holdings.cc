#include "pathways/controller/hosts/host_holdings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/status_macros.h"
#include "pathways/session/wire.h"

namespace pw::controller {

void HostHoldings::Await(HostId host, const std::vector<SessionId>& sessions) {
  if (sessions.empty()) return;
  awaited_[host] = sessions;
  for (SessionId session : sessions) sessions_[session];
}

absl::Status HostHoldings::Insert(HostId host, ArrayId array, Array entry) {
  const std::optional<RequestName> name = RequestName::Read(array.v);
  const auto& kept = awaited_.at(host);
  if (!name.has_value() || std::find(kept.begin(), kept.end(), name->session) == kept.end())
    return absl::InvalidArgumentError(absl::StrCat("a host reports array ", array.v, " of a session that it was not to keep"));
  const auto session = sessions_.find(name->session);
  if (session == sessions_.end()) return absl::OkStatus();  // given up meanwhile
  session->second.own |= name->own;
  session->second.arrays[host][array] = std::move(entry);
  return absl::OkStatus();
}

absl::Status HostHoldings::Add(HostId host, const ::pathways::v1::Holdings& part) {
  if (!awaited_.contains(host)) return absl::InvalidArgumentError("a host reports arrays that it was not to keep");
  if (part.arrays_size() != part.shape_of_array_size())
    return absl::InvalidArgumentError("a host reports arrays without their shapes");
  std::vector<std::shared_ptr<const ::pathways::v1::Holdings::Shape>> shapes;
  for (const auto& shape : part.shapes()) shapes.push_back(std::make_shared<const ::pathways::v1::Holdings::Shape>(shape));
  for (int i = 0; i < part.arrays_size(); ++i) {
    if (part.shape_of_array(i) >= shapes.size())
      return absl::InvalidArgumentError("a host reports an array with a shape that is not there");
    PW_RETURN_IF_ERROR(Insert(host, ArrayId(part.arrays(i)), {absl::OkStatus(), shapes[part.shape_of_array(i)]}));
  }
  for (const auto& poisoned : part.poisoned()) {
    absl::Status error = session::StatusFrom(poisoned.error());
    if (error.ok()) return absl::InvalidArgumentError("a host reports an array that is poisoned by no error");
    PW_RETURN_IF_ERROR(Insert(host, ArrayId(poisoned.array()), {std::move(error), nullptr}));
  }
  for (uint64_t id : part.cut_sessions()) {
    if (const auto cut = sessions_.find(SessionId(id)); cut != sessions_.end()) cut->second.cut = true;
  }
  if (part.last()) awaited_.erase(host);
  return absl::OkStatus();
}

void HostHoldings::RemoveHost(HostId host) {
  awaited_.erase(host);
  for (auto& [id, session] : sessions_) session.arrays.erase(host);
}

std::vector<SessionId> HostHoldings::sessions() const {
  std::vector<SessionId> sessions;
  for (const auto& [id, session] : sessions_) sessions.push_back(id);
  return sessions;
}

absl::Status HostHoldings::Check(SessionId session) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return absl::OkStatus();  // hosts have nothing of it
  if (found->second.cut)
    return absl::UnavailableError(
        "the controller of this session has ended while a computation was under way that its hosts could not end");
  if (found->second.own)
    return absl::UnavailableError(
        "the controller of this session has ended, and another one cannot restore arrays that were moved with their virtual "
        "slice");
  return absl::OkStatus();
}

std::optional<HostHoldings::Found> HostHoldings::Find(SessionId session, HostId host, ArrayId array,
                                                      const buffers::ArraySpec& spec, const std::string& memory_kind) const {
  const auto kept = sessions_.find(session);
  if (kept == sessions_.end()) return std::nullopt;
  const auto on_host = kept->second.arrays.find(host);
  if (on_host == kept->second.arrays.end()) return std::nullopt;
  const auto found = on_host->second.find(array);
  if (found == on_host->second.end()) return std::nullopt;
  if (!found->second.error.ok()) return Found{found->second.error, true};
  const ::pathways::v1::Holdings::Shape& shape = *found->second.shape;
  // A token has no elements; clients and programs may disagree on its shape.
  if (spec.dtype == buffers::DType::kToken && shape.dtype() == static_cast<int>(buffers::DType::kToken)) return Found{};
  const auto dims = spec.sharding.ShardDims(spec.dims, 0);
  const bool same = dims.ok() && shape.dtype() == static_cast<int>(spec.dtype) &&
                    std::equal(dims->begin(), dims->end(), shape.dims().begin(), shape.dims().end()) &&
                    (shape.memory_kind().empty() || shape.memory_kind() == memory_kind);
  if (same) return Found{};
  return Found{absl::InvalidArgumentError(
      absl::StrCat("the client describes an array as ", buffers::ToString(spec), ", which is not what its hosts have"))};
}

void HostHoldings::ForEach(SessionId session, absl::FunctionRef<void(HostId, ArrayId)> visit) const {
  const auto kept = sessions_.find(session);
  if (kept == sessions_.end()) return;
  for (const auto& [host, arrays] : kept->second.arrays) {
    for (const auto& [array, entry] : arrays) visit(host, array);
  }
}

}  // namespace pw::controller
