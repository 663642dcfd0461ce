#include "plugins/pathways_pjrt/package_calls.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "pathways/base/threads/await.h"
#include "plugins/pathways_pjrt/handles.h"

namespace pw::pathways_pjrt {
namespace {

struct Clients {
  std::mutex mu;
  uint64_t last = 0;  // guarded by mu, as all below
  absl::flat_hash_map<uint64_t, PJRT_Client*> numbered;
};

Clients& Known() {
  static auto* known = new Clients;
  return *known;
}

// Ends all sessions when the process ends, because jax does not destroy its clients then. Otherwise the controller would keep
// their arrays for a while, like those of programs that have lost their connection.
void LeaveAll() {
  const std::unique_lock<std::mutex> lock(Known().mu, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread holds the lock, or held it when this process was forked
  for (const auto& [number, client] : Known().numbered) client->session->Leave(absl::Seconds(1));
}

absl::StatusOr<std::string> Ask(uint64_t number, std::string question) {
  PJRT_Client* client = nullptr;
  {
    std::lock_guard<std::mutex> lock(Known().mu);
    if (auto found = Known().numbered.find(number); found != Known().numbered.end()) client = found->second;
  }
  if (client == nullptr) return absl::NotFoundError(absl::StrCat("this process has no client ", number));
  return Await(client->session->Ask(std::move(question)));
}

}  // namespace

uint64_t AddClient(PJRT_Client* client) {
  static const int registered = std::atexit(LeaveAll);
  static_cast<void>(registered);
  std::lock_guard<std::mutex> lock(Known().mu);
  Known().numbered[++Known().last] = client;
  return Known().last;
}

void RemoveClient(PJRT_Client* client) {
  std::lock_guard<std::mutex> lock(Known().mu);
  absl::erase_if(Known().numbered, [client](const auto& known) { return known.second == client; });
}

}  // namespace pw::pathways_pjrt

#define PW_FOR_THE_PACKAGE __attribute__((visibility("default")))

extern "C" PW_FOR_THE_PACKAGE int PathwaysAsk(uint64_t client, const char* question, size_t question_size, char** text,
                                              size_t* text_size) {
  const absl::StatusOr<std::string> answer = pw::pathways_pjrt::Ask(client, {question, question_size});
  const absl::string_view said = answer.ok() ? *answer : answer.status().message();
  *text = new char[said.size() + 1]();
  std::memcpy(*text, said.data(), said.size());
  *text_size = said.size();
  return static_cast<int>(answer.status().code());
}

extern "C" PW_FOR_THE_PACKAGE void PathwaysFree(char* text) { delete[] text; }
