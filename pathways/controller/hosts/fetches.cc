#include "pathways/controller/hosts/fetches.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/sorted_keys.h"

namespace pw::controller {
namespace {

absl::Status WrongSize(uint64_t expected, uint64_t got) {
  return absl::InternalError(
      absl::StrCat("a host sent ", got, " bytes of an array instead of the ", expected, " that were requested"));
}

}  // namespace

void Fetches::Add(uint64_t id, HostId host, SessionId session, uint64_t expected_bytes, Callback done, bool by_lane) {
  auto assembly = std::make_unique<Assembly>();
  assembly->host = host;
  assembly->session = session;
  assembly->expected = expected_bytes;
  assembly->by_lane = by_lane;
  assembly->done = std::move(done);
  if (pending_.insert({id, std::move(assembly)}).second) settlement_->Hold(id);
}

Fetches::Map::iterator Fetches::Find(HostId host, uint64_t id) {
  auto it = pending_.find(id);
  return it == pending_.end() || it->second->host != host ? pending_.end() : it;
}

void Fetches::Finish(Map::iterator it, absl::StatusOr<Bytes> result) {
  const uint64_t id = it->first;
  const std::unique_ptr<Assembly> ended = std::move(it->second);
  pending_.erase(it);
  std::move(ended->done)(std::move(result));
  settlement_->Release(ended->host, id);
}

void Fetches::OnFetched(HostId host, const ::pathways::v1::Fetched& fetched, Bytes payload) {
  auto it = Find(host, fetched.fetch());
  if (it == pending_.end()) return;
  Assembly& a = *it->second;
  if (fetched.total_bytes() != a.expected) return Finish(it, WrongSize(a.expected, fetched.total_bytes()));
  if (a.by_lane && fetched.on_lane() && payload.empty()) return Finish(it, Bytes());
  if (payload.size() == a.expected) return Finish(it, std::move(payload));
  if (!payload.empty()) return Finish(it, WrongSize(a.expected, payload.size()));
  a.announced = true;
  if (a.received == a.expected) Finish(it, std::move(*a.memory).Freeze());
}

void Fetches::Fail(HostId host, uint64_t id, const absl::Status& error) {
  if (auto it = Find(host, id); it != pending_.end()) Finish(it, error);
}

void Fetches::OnChunk(HostId host, const ::pathways::v1::Chunk& chunk, const Bytes& payload) {
  auto it = Find(host, chunk.transfer());
  if (it == pending_.end()) return;
  Assembly& a = *it->second;
  if (chunk.total_bytes() != a.expected) return Finish(it, WrongSize(a.expected, chunk.total_bytes()));
  // Chunks of one transfer come in order, each once.
  if (chunk.offset() != a.received || payload.size() > a.expected - a.received) {
    return Finish(it, absl::InternalError(absl::StrCat("a host sent ", payload.size(), " bytes at ", chunk.offset(), " of ",
                                                       a.expected, " where those at ", a.received, " were due")));
  }
  if (a.memory == nullptr) a.memory = std::make_unique<AlignedBytes>(a.expected);
  if (!payload.empty()) std::memcpy(a.memory->data() + a.received, payload.data(), payload.size());
  a.received += payload.size();
  if (a.announced && a.received == a.expected) Finish(it, std::move(*a.memory).Freeze());
}

template <class Predicate>
void Fetches::FailWhere(const absl::Status& error, Predicate predicate) {
  for (uint64_t id : SortedKeysWhere(pending_, [&](const auto& a) { return predicate(*a); })) {
    if (const auto it = pending_.find(id); it != pending_.end()) Finish(it, error);
  }
}

void Fetches::FailHost(HostId host, const absl::Status& error) {
  FailWhere(error, [host](const Assembly& a) { return a.host == host; });
}

void Fetches::FailSession(SessionId session, const absl::Status& error) {
  FailWhere(error, [session](const Assembly& a) { return a.session == session; });
}

}  // namespace pw::controller
