#include "pathways/frontend/session_table.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/client_session.h"

namespace pw::frontend {
namespace {

std::string TokenOf(const Attributes& data) { return StringAttribute(data, kCompanionKey); }

void Join(ClientSession& session, std::shared_ptr<controller::HostCallHandler> channel) {
  session.cluster().SetHostCallHandler(session.session().id(), std::move(channel));
}

}  // namespace

SessionTable::Draw SessionTable::FromTheSystem() {
  return [device = std::make_shared<std::random_device>()] { return uint64_t{(*device)()} << 32 | (*device)(); };
}

uint64_t SessionTable::Add(const std::shared_ptr<ClientSession>& session) {
  uint64_t id = 0;
  while (id == 0 || sessions_.contains(id)) id = draw_();
  sessions_.emplace(id, session);
  ++counts_.sessions;
  if (std::string token = TokenOf(session->hello().initialization_data); !token.empty()) {
    session_by_token_[token] = id;
    if (auto it = companions_.find(token); it != companions_.end()) Join(*session, it->second);
  }
  return id;
}

void SessionTable::Remove(uint64_t wire_id, const Attributes& initialization_data) {
  sessions_.erase(wire_id);
  if (auto it = session_by_token_.find(TokenOf(initialization_data)); it != session_by_token_.end() && it->second == wire_id) {
    session_by_token_.erase(it);
  }
}

absl::StatusOr<std::shared_ptr<ClientSession>> SessionTable::Find(uint64_t wire_id) {
  if (auto it = sessions_.find(wire_id); it != sessions_.end()) {
    if (auto session = it->second.lock()) return session;
  }
  return absl::NotFoundError("no such session: it has ended, or this is another server than the one it was opened on");
}

absl::Status SessionTable::AddCompanion(const std::string& token, std::shared_ptr<controller::HostCallHandler> channel) {
  if (token.empty()) return absl::InvalidArgumentError("the first message on the callback socket must carry a token");
  if (!companions_.emplace(token, channel).second) {
    return absl::AlreadyExistsError("another process answers the calls of this token");
  }
  if (auto it = session_by_token_.find(token); it != session_by_token_.end()) {
    if (auto session = Find(it->second); session.ok()) Join(**session, std::move(channel));
  }
  return absl::OkStatus();
}

void SessionTable::RemoveCompanion(const std::string& token) {
  companions_.erase(token);
  if (auto it = session_by_token_.find(token); it != session_by_token_.end()) {
    if (auto session = Find(it->second); session.ok()) Join(**session, nullptr);
  }
}

std::shared_ptr<controller::HostCallHandler> SessionTable::CompanionOf(const Attributes& initialization_data) const {
  auto it = companions_.find(TokenOf(initialization_data));
  return it == companions_.end() ? nullptr : it->second;
}

}  // namespace pw::frontend
