#include "pathways/frontend/companion.h"

#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/status_code.h"
#include "pathways/frontend/grpc_util.h"

namespace pw::frontend {
namespace {

using pathways::v1::HostCallAnswer;
using pathways::v1::HostCallRequest;

absl::StatusOr<std::vector<Bytes>> ResultsOf(HostCallAnswer& answer) {
  if (absl::Status s = StatusFrom(answer.status().code(), answer.status().message()); !s.ok()) return s;
  std::vector<Bytes> results;
  for (std::string& result : *answer.mutable_results()) results.push_back(Bytes::FromString(std::move(result)));
  return results;
}

// One channel. Everything but the reading and the data of a read runs on the strand.
class Channel final : public grpc::ServerBidiReactor<HostCallAnswer, HostCallRequest>,
                      public controller::HostCallHandler,
                      public std::enable_shared_from_this<Channel> {
 public:
  explicit Channel(std::shared_ptr<ServerState> server) : server_(std::move(server)) {}

  static Channel* Open(std::shared_ptr<ServerState> server) {
    auto channel = std::make_shared<Channel>(std::move(server));
    channel->self_ = channel;
    channel->StartRead(&channel->incoming_);
    return channel.get();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Post([](Channel& channel) { channel.Close(absl::OkStatus()); });
    Post([answer = std::move(incoming_)](Channel& channel) mutable { channel.OnAnswer(std::move(answer)); });
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    Post([](Channel& channel) {
      channel.writing_ = false;
      channel.queue_.pop_front();
      channel.Send();
    });
  }
  void OnCancel() override {
    Post([](Channel& channel) { channel.Close(absl::CancelledError("the companion channel was cancelled")); });
  }
  void OnDone() override { self_.reset(); }

  void OnHostCall(controller::HostCall call, controller::ResultCallback<std::vector<Bytes>> done) override {
    if (closing_) return std::move(done)(absl::UnavailableError("the client's companion channel has closed"));
    HostCallRequest& request = queue_.emplace_back();
    request.set_call(next_call_);
    request.set_callback(call.callback);
    for (size_t i = 0; i < call.operands.size(); ++i) {
      auto& operand = *request.add_operands();
      operand.set_dtype(static_cast<int32_t>(call.operands[i].dtype));
      operand.mutable_dims()->Assign(call.operands[i].dims.begin(), call.operands[i].dims.end());
      operand.set_data(std::string(call.data[i].view()));
    }
    under_way_.emplace(next_call_++, std::move(done));
    Send();
  }

 private:
  void Post(absl::AnyInvocable<void(Channel&) &&> task) {
    server_->cluster->Post([self = shared_from_this(), task = std::move(task)]() mutable { std::move(task)(*self); });
  }

  void OnAnswer(HostCallAnswer answer) {
    if (closing_) return;
    if (token_.empty()) {
      if (absl::Status s = server_->sessions.AddCompanion(answer.companion(), shared_from_this()); !s.ok()) return Close(s);
      token_ = answer.companion();
      return;
    }
    auto it = under_way_.find(answer.call());
    if (it == under_way_.end())
      return Close(
          absl::InvalidArgumentError(absl::StrCat("an answer came for call ", answer.call(), ", which is not under way")));
    auto done = std::move(it->second);
    under_way_.erase(it);
    std::move(done)(ResultsOf(answer));
  }

  void Send() {
    if (writing_) return;
    if (closing_) {
      if (!std::exchange(finished_, true)) Finish(ToGrpc(close_status_));
      return;
    }
    if (queue_.empty()) return;
    writing_ = true;
    StartWrite(&queue_.front());
  }

  void Close(absl::Status status) {
    if (std::exchange(closing_, true)) return;
    close_status_ = std::move(status);
    if (!token_.empty()) server_->sessions.RemoveCompanion(token_);
    auto calls = std::exchange(under_way_, {});
    for (auto& [call, done] : calls) {
      std::move(done)(absl::UnavailableError("the client's companion channel closed during a host call"));
    }
    Send();
  }

  const std::shared_ptr<ServerState> server_;
  std::shared_ptr<Channel> self_;
  HostCallAnswer incoming_;
  // Of the strand.
  std::string token_;
  std::deque<HostCallRequest> queue_;  // the first is being written while writing_
  bool writing_ = false;
  bool closing_ = false;
  bool finished_ = false;
  absl::Status close_status_;
  uint64_t next_call_ = 1;
  absl::flat_hash_map<uint64_t, controller::ResultCallback<std::vector<Bytes>>> under_way_;
};

}  // namespace

grpc::ServerBidiReactor<HostCallAnswer, HostCallRequest>* CompanionService::HostCalls(grpc::CallbackServerContext*) {
  return Channel::Open(state_);
}

}  // namespace pw::frontend
