#include "pathways/bin/controller_questions.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/clock.h"
#include "pathways/base/future.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_code.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/strand.h"
#include "pathways/base/thread_pool.h"
#include "pathways/base/timer_queue.h"
#include "pathways/client/remote_cluster.h"
#include "pathways/net/asio_transport.h"
#include "pathways/v1/admin.pb.h"

namespace pw {
namespace {
namespace v1 = ::pathways::v1;

template <class T>
absl::StatusOr<T> Wait(const Future<T>& future, absl::Duration timeout, const std::string& address) {
  auto done = std::make_shared<std::promise<absl::StatusOr<T>>>();
  future.OnReady([done](const absl::StatusOr<T>& value) { done->set_value(value); });
  auto waiting = done->get_future();
  if (waiting.wait_for(absl::ToChronoMilliseconds(timeout)) == std::future_status::ready) return waiting.get();
  return absl::DeadlineExceededError(
      absl::StrCat("no answer from a controller at ", address, " within ", absl::FormatDuration(timeout)));
}

// Asks the controller at this address: `ask(cluster, done)`. UNAVAILABLE at once if nothing listens there.
template <class T, class F>
absl::StatusOr<T> Ask(const std::string& address, absl::Duration timeout, F ask) {
  // Destroyed in the reverse order: timers, connections, the executor with what it still runs, then the state.
  SteadyClock clock;
  std::unique_ptr<client::RemoteCluster> cluster;
  ThreadPool executor("pw-question", 1);
  Strand strand(&executor);
  net::AsioTransport transport({.retry_connects = false});
  TimerQueue timers(&clock);
  client::RemoteCluster::Options options;
  options.controller = address;
  options.patience = timeout;
  options.retry = false;
  cluster = std::make_unique<client::RemoteCluster>(options, client::Link::Environment{&transport, &strand, &timers, &clock});
  Promise<T> promise;
  const Future<T> future = promise.future();
  strand.Post([ask = std::move(ask), cluster = cluster.get(), promise = std::move(promise)]() mutable {
    ask(*cluster, session::ResultCallback<T>([promise = std::move(promise)](absl::StatusOr<T> answer) mutable { promise.Set(std::move(answer)); }));
  });
  absl::StatusOr<T> answer = Wait(future, timeout, address);
  if (!absl::IsUnavailable(answer.status())) return answer;
  return absl::UnavailableError(absl::StrCat("no answer from a controller at ", address, ": ", answer.status().message()));
}

// Asks on a connection of its own; the promise is set by the first answer, or by the end of the connection.
class Question final : public net::Connection::Handler {
 public:
  explicit Question(Promise<std::string> promise) : promise_(std::move(promise)) {}

  void OnFrame(net::Frame frame) override {
    v1::AdminReply reply;
    if (!reply.ParseFromString(frame.header)) return Answer(absl::InternalError("the process that answered is not a controller"));
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

}  // namespace

absl::StatusOr<std::string> AskForStatusAsWorker(const std::string& address, absl::Duration timeout) {
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

absl::StatusOr<std::string> AskForStatus(const std::string& address, absl::Duration timeout) {
  return Ask<std::string>(address, timeout, [](session::Cluster& cluster, auto done) { cluster.GetStatus(std::move(done)); });
}

absl::StatusOr<session::ClusterTrace> RecordTrace(const std::string& address, absl::Duration duration, absl::Duration timeout) {
  return Ask<session::ClusterTrace>(address, duration + timeout, [duration](session::Cluster& cluster, auto done) {
    cluster.RecordTrace(duration, 0, std::move(done));
  });
}

absl::StatusOr<std::string> Drain(const std::string& address, absl::Duration timeout, const std::string& host, bool undo) {
  PW_ASSIGN_OR_RETURN(const session::DrainReport report,
                      Ask<session::DrainReport>(address, timeout, [host, undo](session::Cluster& cluster, auto done) {
                        cluster.DrainHost(host, undo, std::move(done));
                      }));
  JsonWriter json;
  json.BeginObject().Key("moved").BeginArray();
  for (SliceId slice : report.moved) json.Int(static_cast<int64_t>(slice.v));
  json.EndArray().Key("stuck").BeginArray();
  for (const auto& [slice, why] : report.stuck) {
    json.BeginObject().Key("slice").Int(static_cast<int64_t>(slice.v)).Key("why").String(why).EndObject();
  }
  return json.EndArray().EndObject().Take();
}

absl::StatusOr<std::string> Suspend(const std::string& address, absl::Duration timeout, uint64_t client, bool resume) {
  PW_ASSIGN_OR_RETURN(const session::SuspendReport report,
                      Ask<session::SuspendReport>(address, timeout, [client, resume](session::Cluster& cluster, auto done) {
                        cluster.SuspendClient(SessionId(client), resume, std::move(done));
                      }));
  JsonWriter json;
  json.BeginObject().Key("client").Int(static_cast<int64_t>(client)).Key("arrays").Int(report.arrays);
  return json.Key("bytes").Int(report.bytes).EndObject().Take();
}

absl::StatusOr<gang::Share> SetShare(const std::string& address, absl::Duration timeout, uint64_t client,
                                     const gang::ShareChange& change) {
  return Ask<gang::Share>(address, timeout, [client, change](session::Cluster& cluster, auto done) {
    cluster.ChangeShare(SessionId(client), change, std::move(done));
  });
}

}  // namespace pw
