#include "pathways/worker/store/had_commands.h"

#include "pathways/base/request_name.h"

namespace pw::worker {
namespace v1 = pathways::v1;

std::optional<std::pair<SessionId, HadCommands::Key>> HadCommands::Read(Kind kind, uint64_t name) {
  const std::optional<RequestName> read = RequestName::Read(name);
  if (!read.has_value() || read->own) return std::nullopt;
  return std::pair(read->session, Key{read->request, name, kind});
}

HadCommands::Entry* HadCommands::Find(Kind kind, uint64_t name) const {
  const auto key = Read(kind, name);
  const auto session = key.has_value() ? sessions_.find(key->first) : sessions_.end();
  if (session == sessions_.end()) return nullptr;
  const auto entry = session->second.find(key->second);
  return entry == session->second.end() ? nullptr : const_cast<Entry*>(&entry->second);
}

HadCommands::Entry* HadCommands::FindUnderWay(Kind kind, uint64_t name) const {
  Entry* const entry = Find(kind, name);
  return entry == nullptr || entry->ended ? nullptr : entry;
}

const HadCommands::Entry* HadCommands::Ended(Kind kind, uint64_t name) const {
  const Entry* const entry = Find(kind, name);
  return entry == nullptr || !entry->ended ? nullptr : entry;
}

// Names mostly ascend.
bool HadCommands::Begin(Kind kind, uint64_t name) {
  const auto key = Read(kind, name);
  if (!key.has_value()) return true;
  auto session = sessions_.find(key->first);
  if (session == sessions_.end()) {
    if (HasEnded(key->first)) return true;
    session = sessions_.try_emplace(key->first).first;
  }
  Entries& entries = session->second;
  const size_t before = entries.size();
  entries.try_emplace(entries.end(), key->second);
  if (entries.size() == before) return false;
  ++names_;
  return true;
}

HadCommands::Answer& HadCommands::AnswerOf(Entry& entry) {
  if (entry.answer == nullptr) entry.answer = std::make_unique<Answer>();
  return *entry.answer;
}

void HadCommands::Done(uint64_t op, double device_microseconds, std::optional<double> timed) {
  Entry* const entry = FindUnderWay(Kind::kOp, op);
  if (entry == nullptr) return;
  entry->ended = true;
  entry->device_microseconds = static_cast<float>(device_microseconds);
  entry->timed = timed;
  if (entry->answer == nullptr) return;
  v1::Done& done = *entry->answer->event.mutable_done();
  done.add_ok(op);
  done.add_device_microseconds(entry->device_microseconds);
}

void HadCommands::Failed(const v1::Done::Failed& failed) {
  Entry* const entry = FindUnderWay(Kind::kOp, failed.op());
  if (entry == nullptr) return;
  entry->ended = true;
  *AnswerOf(*entry).event.mutable_done()->add_failed() = failed;
}

void HadCommands::AddPoisoned(const v1::Done::Poisoned& poisoned) {
  Entry* const entry = FindUnderWay(Kind::kOp, poisoned.op());
  if (entry != nullptr) *AnswerOf(*entry).event.mutable_done()->add_poisoned() = poisoned;
}

size_t HadCommands::LargeBytes(const Answer& answer) { return answer.payload.size() + answer.event.described().module().size(); }

void HadCommands::Keep(Kind kind, uint64_t name, const v1::Event& event, Bytes payload) {
  Entry* const entry = FindUnderWay(kind, name);
  if (entry == nullptr) return;
  entry->ended = true;
  Answer& answer = AnswerOf(*entry);
  answer.event = event;
  answer.payload = std::move(payload);
  const size_t bytes = LargeBytes(answer);
  if (bytes == 0) return;
  kept_bytes_ += bytes;
  entry->large = next_large_++;
  large_.emplace(*entry->large, *Read(kind, name));
  while (kept_bytes_ > kMostKeptBytes) {
    const auto [session, key] = large_.begin()->second;
    Forget(key.kind, key.name);
  }
}

void HadCommands::Forget(Kind kind, uint64_t name) {
  const auto key = Read(kind, name);
  const auto session = key.has_value() ? sessions_.find(key->first) : sessions_.end();
  if (session == sessions_.end()) return;
  const auto entry = session->second.find(key->second);
  if (entry != session->second.end()) Erase(session->second, entry);
  if (session->second.empty()) sessions_.erase(session);
}

HadCommands::Entries::iterator HadCommands::Erase(Entries& entries, Entries::iterator at) {
  --names_;
  if (at->second.large.has_value()) {
    kept_bytes_ -= LargeBytes(*at->second.answer);
    large_.erase(*at->second.large);
  }
  return entries.erase(at);
}

void HadCommands::Erase(Entries& entries, uint64_t first, uint64_t last) {
  for (auto at = entries.lower_bound({first, 0, Kind::kOp}); at != entries.end() && at->first.request <= last;)
    at = Erase(entries, at);
}

void HadCommands::Tie(uint64_t op, uint64_t transfer) {
  if (Entry* const entry = Find(Kind::kOp, op)) entry->transfer = transfer;
}

std::vector<SessionId> HadCommands::sessions() const {
  std::vector<SessionId> sessions;
  for (const auto& [id, entries] : sessions_) sessions.push_back(id);
  return sessions;
}

void HadCommands::KeepEnded(const std::set<SessionId>& sessions) {
  std::vector<uint64_t> transfers;  // of Puts that are forgotten
  for (auto& [id, entries] : sessions_) {
    for (auto at = entries.begin(); at != entries.end();) {
      const auto& [key, entry] = *at;
      const bool on_lane = entry.answer != nullptr && entry.answer->event.fetched().on_lane();
      const bool keep = sessions.contains(id) && (key.kind == Kind::kTransfer || (entry.ended && !on_lane));
      if (!keep && entry.transfer != 0) transfers.push_back(entry.transfer);
      at = keep ? std::next(at) : Erase(entries, at);
    }
  }
  absl::erase_if(sessions_, [](const auto& session) { return session.second.empty(); });
  for (uint64_t transfer : transfers) Forget(Kind::kTransfer, transfer);
}

void HadCommands::Settle(const v1::Settled& settled) {
  const auto session = sessions_.find(SessionId(settled.session()));
  if (session == sessions_.end()) return;
  Erase(session->second, 0, settled.up_to());
  for (int i = 0; i + 1 < settled.others_size(); i += 2) Erase(session->second, settled.others(i), settled.others(i + 1));
  if (session->second.empty()) sessions_.erase(session);
}

void HadCommands::End(SessionId session) {
  ended_.insert(session);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  Erase(found->second, 0, UINT64_MAX);
  sessions_.erase(found);
}

}  // namespace pw::worker
