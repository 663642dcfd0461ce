#include "pathways/bin/controller_questions.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_code.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/clock.h"
#include "pathways/base/threads/future.h"
#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/base/threads/timer_queue.h"
#include "pathways/client/remote_cluster.h"
#include "pathways/net/asio/asio_transport.h"
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

// A way to the controller that is asked.
class Controller {
 public:
  Controller(const Asked& asked, const identity::Credentials& credentials)
      : address_(asked.address), transport_({.tls = credentials.tls, .retry_connects = false}) {
    client::RemoteCluster::Options options;
    options.controller = address_;
    options.patience = asked.timeout;
    options.token = credentials.token;
    options.retry = false;
    cluster_ =
        std::make_unique<client::RemoteCluster>(options, client::Link::Environment{&transport_, &strand_, &timers_, &clock_});
  }

  ~Controller() { cluster_->EndSessions(); }

  // Waits for the answer of `ask(cluster, done)`, which runs on the strand. UNAVAILABLE at once if nothing listens at the address.
  template <class T, class F>
  absl::StatusOr<T> Ask(absl::Duration timeout, F ask) {
    Promise<T> promise;
    const Future<T> future = promise.future();
    strand_.Post([ask = std::move(ask), cluster = cluster_.get(), promise = std::move(promise)]() mutable {
      ask(*cluster, session::ResultCallback<T>(
                        [promise = std::move(promise)](absl::StatusOr<T> answer) mutable { promise.Set(std::move(answer)); }));
    });
    absl::StatusOr<T> answer = Wait(future, timeout, address_);
    if (!absl::IsUnavailable(answer.status())) return answer;
    return absl::UnavailableError(absl::StrCat("no answer from a controller at ", address_, ": ", answer.status().message()));
  }

  // Returns after this time.
  void Pass(absl::Duration time) {
    Promise<Unit> passed;
    const Future<Unit> future = passed.future();
    auto shared = std::make_shared<Promise<Unit>>(std::move(passed));
    timers_.After(time, &strand_, [shared] { shared->Set(Unit()); });
    Wait(future, time + absl::Minutes(1), address_).IgnoreError();
  }

 private:
  const std::string address_;
  // Destroyed in the reverse order: timers, connections, the executor and its remaining tasks, then the state.
  SteadyClock clock_;
  std::unique_ptr<client::RemoteCluster> cluster_;
  ThreadPool executor_{"pw-question", 1};
  Strand strand_{&executor_};
  net::AsioTransport transport_;
  TimerQueue timers_{&clock_};
};

// Asks the controller at this address: `ask(cluster, done)`. UNAVAILABLE at once if nothing listens there.
template <class T, class F>
absl::StatusOr<T> Ask(const Asked& asked, F ask) {
  PW_ASSIGN_OR_RETURN(const identity::Credentials credentials, identity::CredentialsFor(asked.address, asked.credentials));
  Controller controller(asked, credentials);
  return controller.Ask<T>(asked.timeout, std::move(ask));
}

// Sets the promise at the first answer on its connection, or at the connection's end.
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

absl::StatusOr<std::string> AskForStatusAsWorker(const Asked& asked) {
  PW_ASSIGN_OR_RETURN(const identity::Credentials credentials, identity::CredentialsFor(asked.address, asked.credentials));
  auto promise = std::make_shared<Promise<std::string>>();
  const Future<std::string> future = promise->future();
  std::unique_ptr<Question> question;
  std::unique_ptr<net::Connection> connection;
  net::AsioTransport transport({.tls = credentials.tls});  // destroyed first: no callback runs afterwards
  transport.Connect(asked.address, asked.timeout, [&](absl::StatusOr<std::unique_ptr<net::Connection>> connected) {
    const absl::Status status = connected.ok() ? net::CheckServer(**connected, net::PeerProof::kController) : connected.status();
    if (!status.ok()) return promise->Set(status);
    question = std::make_unique<Question>(std::move(*promise));
    connection = *std::move(connected);
    connection->Start(question.get());
    v1::AdminRequest request;
    request.mutable_status();
    request.set_token(credentials.token.Now());
    connection->Send(request.SerializeAsString());
  });
  return Wait(future, asked.timeout, asked.address);
}

absl::StatusOr<std::string> AskForStatus(const Asked& asked) {
  return Ask<std::string>(asked, [](session::Cluster& cluster, auto done) { cluster.GetStatus(std::move(done)); });
}

absl::StatusOr<session::ClusterTrace> RecordTrace(const Asked& asked, absl::Duration duration) {
  return Ask<session::ClusterTrace>(
      {asked.address, duration + asked.timeout, asked.credentials},
      [duration](session::Cluster& cluster, auto done) { cluster.RecordTrace(duration, 0, std::move(done)); });
}

namespace {

constexpr absl::Duration kProfileTimeout = absl::Seconds(60);  // for the hosts to convert what they have recorded

// Adapts a callback of a status to one of a result.
session::StatusCallback WithoutValue(session::ResultCallback<Unit> done) {
  return [done = std::move(done)](absl::Status status) mutable {
    if (status.ok()) return std::move(done)(Unit());
    std::move(done)(std::move(status));
  };
}

// Reads the XSpace of a host to its end.
absl::Status ReadXSpace(Controller& controller, absl::Duration timeout, SessionId session, size_t host, uint64_t bytes,
                        absl::FunctionRef<absl::Status(std::string_view)> write) {
  for (uint64_t offset = 0; offset < bytes;) {
    PW_ASSIGN_OR_RETURN(const Bytes piece, controller.Ask<Bytes>(timeout, [=](session::Cluster& cluster, auto done) {
      cluster.ReadProfile(session, host, offset, std::move(done));
    }));
    if (piece.empty()) return absl::DataLossError("its profile is shorter than was said");
    PW_RETURN_IF_ERROR(write(piece.view()));
    offset += piece.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<session::ClusterProfile> RecordProfile(Controller& controller, const Asked& asked, SessionId session,
                                                      const ProfileWanted& wanted, ProfileWriter* writer) {
  const session::ProfileOptions options{.everything = true, .max_bytes = wanted.max_bytes};
  PW_RETURN_IF_ERROR(
      controller
          .Ask<Unit>(asked.timeout, [=](session::Cluster& cluster,
                                        auto done) { cluster.StartProfile(session, options, WithoutValue(std::move(done))); })
          .status());
  controller.Pass(wanted.duration);
  PW_ASSIGN_OR_RETURN(session::ClusterProfile profile,
                      controller.Ask<session::ClusterProfile>(kProfileTimeout, [=](session::Cluster& cluster, auto done) {
                        cluster.StopProfile(session, std::move(done));
                      }));
  for (size_t h = 0; h < profile.hosts.size(); ++h) {
    session::ClusterProfile::Host& host = profile.hosts[h];
    if (host.bytes == 0) continue;
    PW_RETURN_IF_ERROR(writer->Begin(h, host.name));
    absl::Status written;
    const absl::Status read = ReadXSpace(controller, asked.timeout, session, h, host.bytes,
                                         [&](std::string_view piece) { return written = writer->Write(piece); });
    PW_RETURN_IF_ERROR(writer->End(/*whole=*/read.ok()));
    PW_RETURN_IF_ERROR(written);
    if (read.ok()) continue;
    host.bytes = 0;
    host.missing = std::string(read.message());
  }
  return profile;
}

}  // namespace

absl::StatusOr<session::ClusterProfile> RecordProfile(const Asked& asked, const ProfileWanted& wanted, ProfileWriter* writer) {
  if (wanted.duration <= absl::ZeroDuration() || wanted.duration >= session::kLongestProfile)
    return absl::InvalidArgumentError(absl::StrCat("a profile lasts less than ", absl::FormatDuration(session::kLongestProfile),
                                                   ", not ", absl::FormatDuration(wanted.duration)));
  PW_ASSIGN_OR_RETURN(const identity::Credentials credentials, identity::CredentialsFor(asked.address, asked.credentials));
  Controller controller(asked, credentials);
  using SessionRef = std::shared_ptr<client::RemoteSession>;
  PW_ASSIGN_OR_RETURN(SessionRef session,
                      controller.Ask<SessionRef>(
                          asked.timeout, [](client::RemoteCluster& cluster, auto done) { cluster.Observe(std::move(done)); }));
  absl::StatusOr<session::ClusterProfile> profile = RecordProfile(controller, asked, session->id(), wanted, writer);
  // The session ends on the strand, and the hosts drop the profile.
  const absl::Status ended = controller
                                 .Ask<Unit>(asked.timeout,
                                            [session = std::move(session)](client::RemoteCluster& cluster, auto done) mutable {
                                              cluster.Leave(session->id(), [&cluster, session, done = std::move(done)]() mutable {
                                                cluster.Post([session = std::move(session), done = std::move(done)]() mutable {
                                                  session = nullptr;
                                                  std::move(done)(Unit());
                                                });
                                              });
                                            })
                                 .status();
  if (profile.ok() && !ended.ok()) return ended;
  return profile;
}

absl::StatusOr<std::string> Drain(const Asked& asked, const std::string& host, bool undo) {
  PW_ASSIGN_OR_RETURN(const session::DrainReport report,
                      Ask<session::DrainReport>(asked, [host, undo](session::Cluster& cluster, auto done) {
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

absl::StatusOr<std::string> Suspend(const Asked& asked, uint64_t client, bool resume) {
  PW_ASSIGN_OR_RETURN(const session::SuspendReport report,
                      Ask<session::SuspendReport>(asked, [client, resume](session::Cluster& cluster, auto done) {
                        cluster.SuspendClient(SessionId(client), resume, std::move(done));
                      }));
  JsonWriter json;
  json.BeginObject().Key("client").Int(static_cast<int64_t>(client)).Key("arrays").Int(report.arrays);
  return json.Key("bytes").Int(report.bytes).EndObject().Take();
}

absl::StatusOr<gang::Share> SetShare(const Asked& asked, uint64_t client, const gang::ShareChange& change) {
  return Ask<gang::Share>(asked, [client, change](session::Cluster& cluster, auto done) {
    cluster.ChangeShare(SessionId(client), change, std::move(done));
  });
}

namespace {

absl::StatusOr<std::string> AskTokens(const Asked& asked, v1::TokenQuestion question) {
  return Ask<std::string>(asked, [question = std::move(question)](client::RemoteCluster& cluster, auto done) {
    cluster.AskTokens(question, std::move(done));
  });
}

}  // namespace

absl::StatusOr<std::string> CreateToken(const Asked& asked, const NewToken& wanted) {
  if (wanted.expires < absl::ZeroDuration() || wanted.uses < 0)
    return absl::InvalidArgumentError("--token-expires and --token-uses must not be negative");
  v1::TokenQuestion question;
  auto& create = *question.mutable_create();
  create.set_user(wanted.user);
  create.set_role(wanted.role);
  WallClock clock;
  if (wanted.expires > absl::ZeroDuration()) create.set_expires(absl::ToUnixSeconds(clock.Now() + wanted.expires));
  create.set_uses(wanted.uses);
  PW_ASSIGN_OR_RETURN(const std::string text, AskTokens(asked, std::move(question)));
  return absl::StrCat("address ", asked.address, "\n", absl::StripSuffix(text, "\n"));
}

absl::StatusOr<std::string> ListTokens(const Asked& asked) {
  v1::TokenQuestion question;
  question.set_list(true);
  return AskTokens(asked, std::move(question));
}

absl::StatusOr<std::string> RevokeToken(const Asked& asked, const std::string& id) {
  v1::TokenQuestion question;
  question.set_revoke(id);
  PW_RETURN_IF_ERROR(AskTokens(asked, std::move(question)).status());
  JsonWriter json;
  return json.BeginObject().Key("revoked").String(id).EndObject().Take();
}

namespace {

// Reads a limit. `name`: of the limit, as in identity/quotas.h.
template <class T, class Parse>
absl::Status ReadLimit(const std::string& text, const std::string& name, Parse parse, v1::QuotaQuestion::Change* change,
                       void (v1::QuotaQuestion::Change::*set)(T)) {
  T value;
  if (text.empty()) return absl::OkStatus();
  if (text == "none") {
    change->add_remove(name);
  } else if (parse(text, &value)) {
    (change->*set)(value);
  } else {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a limit of ", name, ": a number, or none"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Quotas(const Asked& asked, const NewQuota& wanted) {
  using Change = v1::QuotaQuestion::Change;
  v1::QuotaQuestion question;
  question.set_list(true);
  if (!wanted.user.empty()) {
    Change* change = question.mutable_change();
    change->set_user(wanted.user);
    PW_RETURN_IF_ERROR(ReadLimit(wanted.sessions, "sessions", absl::SimpleAtoi<int64_t>, change, &Change::set_sessions));
    PW_RETURN_IF_ERROR(ReadLimit(wanted.device_seconds, "device_seconds", absl::SimpleAtod, change, &Change::set_device_seconds));
    PW_RETURN_IF_ERROR(ReadLimit(wanted.weight, "weight", absl::SimpleAtod, change, &Change::set_weight));
    PW_RETURN_IF_ERROR(ReadLimit(wanted.priority, "priority", absl::SimpleAtoi<int32_t>, change, &Change::set_priority));
    PW_RETURN_IF_ERROR(ReadLimit(wanted.devices, "devices", absl::SimpleAtoi<int64_t>, change, &Change::set_devices));
    PW_RETURN_IF_ERROR(
        ReadLimit(wanted.device_memory, "device_memory", absl::SimpleAtoi<int64_t>, change, &Change::set_device_memory));
    PW_RETURN_IF_ERROR(ReadLimit(wanted.host_memory, "host_memory", absl::SimpleAtoi<int64_t>, change, &Change::set_host_memory));
    PW_RETURN_IF_ERROR(
        ReadLimit(wanted.host_processes, "host_processes", absl::SimpleAtoi<int64_t>, change, &Change::set_host_processes));
  }
  return Ask<std::string>(asked, [question = std::move(question)](client::RemoteCluster& cluster, auto done) {
    cluster.AskQuotas(question, std::move(done));
  });
}

}  // namespace pw
