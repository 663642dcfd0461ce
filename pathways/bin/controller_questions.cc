#include "pathways/bin/controller_questions.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "pathways/base/future.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_code.h"
#include "pathways/net/asio_transport.h"
#include "pathways/v1/admin.pb.h"
#include "pathways/v1/client.grpc.pb.h"

namespace pw {
namespace {
namespace v1 = ::pathways::v1;

// One call on the address where clients connect.
template <class Request, class Response>
absl::Status Call(const std::string& address, absl::Duration timeout, const Request& request, Response* response,
                  grpc::Status (v1::ClientCompanion::Stub::*method)(grpc::ClientContext*, const Request&, Response*)) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  v1::ClientCompanion::Stub stub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  const grpc::Status status = (stub.*method)(&context, request, response);
  if (status.ok()) return absl::OkStatus();
  const bool refused = status.error_code() == grpc::FAILED_PRECONDITION || status.error_code() == grpc::INVALID_ARGUMENT ||
                       status.error_code() == grpc::NOT_FOUND;
  return absl::Status(
      static_cast<absl::StatusCode>(status.error_code()),
      refused ? status.error_message() : absl::StrCat("no answer from a controller at ", address, ": ", status.error_message()));
}

absl::StatusOr<std::string> AskAsClient(const std::string& address, absl::Duration timeout) {
  v1::GetStatusResponse response;
  const absl::Status status = Call(address, timeout, v1::GetStatusRequest(), &response, &v1::ClientCompanion::Stub::GetStatus);
  if (!status.ok()) return status;
  return std::move(*response.mutable_json());
}

// Asks on a connection of its own; the promise is set by the first answer, or by the end of the connection.
class Question final : public net::Connection::Handler {
 public:
  explicit Question(Promise<std::string> promise) : promise_(std::move(promise)) {}

  void OnFrame(net::Frame frame) override {
    v1::AdminReply reply;
    if (!reply.ParseFromString(frame.header)) return Answer(absl::InternalError("what answered is no controller"));
    if (const absl::Status status = StatusFrom(reply.status().code(), reply.status().message()); !status.ok())
      return Answer(status);
    Answer(reply.json());
  }
  void OnClosed(const absl::Status& reason) override { Answer(reason); }

 private:
  void Answer(absl::StatusOr<std::string> answer) {
    if (std::exchange(answered_, true)) return;
    promise_.Set(std::move(answer));
  }
  Promise<std::string> promise_;
  bool answered_ = false;
};

template <class T>
absl::StatusOr<T> Wait(const Future<T>& future, absl::Duration timeout, const std::string& address) {
  auto done = std::make_shared<std::promise<absl::StatusOr<T>>>();
  future.OnReady([done](const absl::StatusOr<T>& value) { done->set_value(value); });
  auto waiting = done->get_future();
  if (waiting.wait_for(absl::ToChronoMilliseconds(timeout)) == std::future_status::ready) return waiting.get();
  return absl::DeadlineExceededError(
      absl::StrCat("no answer from a controller at ", address, " within ", absl::FormatDuration(timeout)));
}

absl::StatusOr<std::string> AskAsWorker(const std::string& address, absl::Duration timeout) {
  auto promise = std::make_shared<Promise<std::string>>();
  const Future<std::string> future = promise->future();
  std::unique_ptr<Question> question;
  std::unique_ptr<net::Connection> connection;
  net::AsioTransport transport;  // first to go: no callback runs afterwards
  transport.Connect(address, timeout, [&](absl::StatusOr<std::unique_ptr<net::Connection>> connected) {
    if (!connected.ok()) return promise->Set(connected.status());
    question = std::make_unique<Question>(std::move(*promise));
    connection = *std::move(connected);
    connection->Start(question.get());
    v1::AdminRequest request;
    request.mutable_status();
    connection->Send(request.SerializeAsString());
  });
  return Wait(future, timeout, address);
}

}  // namespace

absl::StatusOr<std::string> AskForStatus(const std::string& address, absl::Duration timeout) {
  const bool of_workers = absl::StartsWith(address, "unix:") || absl::StartsWith(address, "tcp:");
  return of_workers ? AskAsWorker(address, timeout) : AskAsClient(address, timeout);
}

absl::StatusOr<TraceSummary> SaveTrace(const std::string& address, absl::Duration duration, absl::Duration timeout,
                                       const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return absl::InvalidArgumentError(absl::StrCat("cannot write to ", path));
  v1::TraceRequest request;
  request.set_seconds(absl::ToDoubleSeconds(duration));
  v1::TraceResponse response;
  const absl::Status status = Call(address, duration + timeout, request, &response, &v1::ClientCompanion::Stub::Trace);
  if (!status.ok()) return status;
  file << response.perfetto_json();
  if (!file.flush()) return absl::ResourceExhaustedError(absl::StrCat("cannot write all of the trace to ", path));
  return TraceSummary{
      response.events(), response.events_not_recorded(), {response.silent_hosts().begin(), response.silent_hosts().end()}};
}

absl::StatusOr<std::string> Drain(const std::string& address, absl::Duration timeout, const std::string& host, bool undo) {
  v1::DrainRequest request;
  request.set_host(host);
  request.set_undo(undo);
  v1::DrainResponse response;
  const absl::Status status = Call(address, timeout, request, &response, &v1::ClientCompanion::Stub::Drain);
  if (!status.ok()) return status;
  JsonWriter json;
  json.BeginObject().Key("moved").BeginArray();
  for (uint64_t slice : response.moved()) json.Int(static_cast<int64_t>(slice));
  json.EndArray().Key("stuck").BeginArray();
  for (const auto& stuck : response.stuck()) {
    json.BeginObject().Key("slice").Int(static_cast<int64_t>(stuck.slice())).Key("why").String(stuck.why()).EndObject();
  }
  return json.EndArray().EndObject().Take();
}

absl::StatusOr<std::string> Suspend(const std::string& address, absl::Duration timeout, uint64_t client, bool resume) {
  v1::SuspendRequest request;
  request.set_client(client);
  request.set_resume(resume);
  v1::SuspendResponse response;
  const absl::Status status = Call(address, timeout, request, &response, &v1::ClientCompanion::Stub::Suspend);
  if (!status.ok()) return status;
  JsonWriter json;
  json.BeginObject().Key("client").Int(static_cast<int64_t>(client)).Key("arrays").Int(response.arrays());
  return json.Key("bytes").Int(response.bytes()).EndObject().Take();
}

absl::StatusOr<gang::Share> SetShare(const std::string& address, absl::Duration timeout, uint64_t client,
                                     const gang::ShareChange& change) {
  v1::SetShareRequest request;
  request.set_client(client);
  if (change.weight.has_value()) request.set_weight(*change.weight);
  if (change.priority.has_value()) request.set_priority(*change.priority);
  v1::SetShareResponse response;
  const absl::Status status = Call(address, timeout, request, &response, &v1::ClientCompanion::Stub::SetShare);
  if (!status.ok()) return status;
  return gang::Share{.weight = response.weight(), .priority = response.priority()};
}

}  // namespace pw
