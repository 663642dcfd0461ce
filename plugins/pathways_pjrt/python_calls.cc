#include "plugins/pathways_pjrt/python_calls.h"

#include <deque>
#include <utility>
#include <vector>

#include "pathways/base/status_macros.h"

namespace pw::pathways_pjrt {
namespace {

// Calls: passes calls on to the package. Strand-confined.
class Calls final : public session::HostCallHandler {
 public:
  using Done = session::ResultCallback<std::vector<Bytes>>;

  void OnHostCall(session::HostCall call, Done done) override {
    if (package_ != nullptr) return package_->OnHostCall(std::move(call), std::move(done));
    if (ended_) return std::move(done)(session::NoHostCallHandler());
    waiting_.push_back({std::move(call), std::move(done)});
  }

  void OnConnected(std::shared_ptr<session::HostCallHandler> package) {
    package_ = std::move(package);
    for (Waiting& one : std::exchange(waiting_, {})) package_->OnHostCall(std::move(one.call), std::move(one.done));
  }

  void OnGone() {
    package_ = nullptr;
    ended_ = true;
  }

 private:
  struct Waiting {
    session::HostCall call;
    Done done;
  };
  std::shared_ptr<session::HostCallHandler> package_;  // null: not connected
  bool ended_ = false;
  std::deque<Waiting> waiting_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PythonCalls>> PythonCalls::Start(client::Client* session, const std::string& path,
                                                                std::string token) {
  auto calls = std::make_shared<Calls>();
  callbacks::CallSocket::Door door;
  door.post = [session](absl::AnyInvocable<void()&&> task) { session->Post(std::move(task)); };
  door.add = [calls, token = std::move(token)](const std::string& theirs, std::shared_ptr<session::HostCallHandler> handler) {
    if (theirs != token) return absl::PermissionDeniedError("only the process of this session answers its calls");
    calls->OnConnected(std::move(handler));
    return absl::OkStatus();
  };
  door.remove = [calls](const std::string&) { calls->OnGone(); };
  std::unique_ptr<PythonCalls> result(new PythonCalls);
  PW_ASSIGN_OR_RETURN(result->socket_, callbacks::CallSocket::Start(path, std::move(door)));
  session->SetHostCalls(std::move(calls));
  return result;
}

}  // namespace pw::pathways_pjrt
