#include "pathways/worker/python/functions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/sha256.h"
#include "pathways/base/sorted_keys.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/program.h"
#include "pathways/worker/transfer/placement.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr int kMostMemories = 4096;
constexpr size_t kMostStringBytes = 16 << 20;

// Takes the shards of arguments of strings from the command.
absl::Status TakeTexts(const HostPart& part, const v1::Execute& command, std::vector<Bytes>* texts) {
  std::map<std::pair<uint32_t, int32_t>, const v1::Execute::StringArgument*> given;
  for (const auto& argument : command.string_args()) given[{argument.arg(), argument.shard()}] = &argument;
  size_t i = 0;
  for (size_t k = 0; k < part.inputs.size(); ++k) {
    for (const LocalShard& shard : part.inputs[k].shards) {
      Bytes& text = (*texts)[i++];
      if (part.inputs[k].dtype != buffers::DType::kString) continue;
      const auto found = given.find({static_cast<uint32_t>(k), shard.index});
      if (found == given.end())
        return absl::InternalError(
            absl::StrCat("the strings of argument ", k, " of the Python function ", part.name, " did not come with the call"));
      PW_RETURN_IF_ERROR(FromProto(found->second->error()));
      text = Bytes::Copy(found->second->contents());
    }
  }
  return absl::OkStatus();
}

}  // namespace

struct Functions::Stream {
  std::deque<PythonCallRef> calls;
  bool advancing = false;
  bool again = false;
};

struct Functions::Client {
  Client(const SessionPython::Environment& environment, SessionId session, v1::FunctionHosts hosts)
      : python(environment, session, std::move(hosts)) {}

  SessionPython python;
  std::map<uint64_t, Stream> streams;  // by number; none is empty
  // The functions that the process has loaded for the Worker before, by content, until they are compiled again.
  std::multimap<std::string, uint64_t> loaded = {};
};

struct Functions::Kept {
  std::unique_ptr<net::FileListener> files;  // to which the processes have connected
  std::unique_ptr<net::SharedMemoryFactory> memory;
  uint64_t next_call = 1, next_function = 1;
  std::map<SessionId, std::unique_ptr<Client>> clients;  // ends before the others
};

Functions::Functions(WorkerContext* context, DeviceArrays* arrays, Timers* timers, PythonOptions options, ToClient to_client,
                     std::shared_ptr<Kept> kept)
    : context_(context),
      arrays_(arrays),
      timers_(timers),
      options_(std::move(options)),
      to_client_(std::move(to_client)),
      memory_(std::make_unique<net::SharedMemoryFactory>(kMostMemories)) {
  if (kept != nullptr) TakeOver(*kept);
}

Functions::~Functions() {
  alive_ = nullptr;
  clients_.clear();  // before the listener and the memory that they use
}

void Functions::TakeOver(Kept& kept) {
  files_ = std::move(kept.files);
  memory_ = std::move(kept.memory);
  next_call_ = kept.next_call;
  next_function_ = kept.next_function;
  clients_ = std::move(kept.clients);
  for (auto& [session, client] : clients_) client->python.TakeOver(ForSessions());
}

std::shared_ptr<Functions::Kept> Functions::Keep(const std::set<SessionId>& sessions) {
  auto kept = std::make_shared<Kept>();
  for (SessionId session : sessions) {
    auto node = clients_.extract(session);
    if (node.empty() || !node.mapped()->python.has_process()) continue;
    Client& client = *node.mapped();
    client.python.Leave();
    client.loaded.clear();
    for (const auto& [id, function] : functions_) {
      if (function->session == session) client.loaded.emplace(function->content, function->number);
    }
    client.streams.clear();  // of calls that have not begun
    kept->clients.emplace(session, std::move(node.mapped()));
  }
  if (kept->clients.empty()) return nullptr;
  clients_.clear();
  kept->files = std::move(files_);
  kept->memory = std::move(memory_);
  kept->next_call = next_call_;
  kept->next_function = next_function_;
  return kept;
}

std::set<SessionId> Functions::Calling() const {
  std::set<SessionId> sessions;
  for (const auto& [session, calls] : begun_) sessions.insert(session);
  return sessions;
}

std::set<SessionId> Functions::WithProcesses() const {
  std::set<SessionId> sessions;
  for (const auto& [session, client] : clients_) {
    if (client->python.has_process()) sessions.insert(session);
  }
  return sessions;
}

void Functions::Unbegin() {
  ObjectStore& store = arrays_->store();
  for (const auto& [session, client] : clients_) {
    for (const auto& [number, stream] : client->streams) {
      for (const PythonCallRef& call : stream.calls) {
        for (size_t i = 0; i < call->args.size() && !call->begun; ++i) {
          const ShardRef& arg = call->args[i];
          const auto& [id, shard] = call->names[i];
          if (arg != nullptr && arg->settled() && !arg->failed() && store.Find(id, shard) == nullptr)
            store.Bind(id, shard, arg, session);
        }
      }
    }
  }
}

absl::Status Functions::CheckAllowed() {
  if (options_.python.empty()) {
    return absl::PermissionDeniedError(absl::StrCat(
        options_.host_name,
        " runs no Python functions of clients: its operator has not allowed it. `pathways up` and `pathways worker` allow it "
        "with --host-python; clients' code then runs there as the worker's user"));
  }
  if (files_ != nullptr) return absl::OkStatus();
  if (options_.transport == nullptr || options_.threads == nullptr)
    return absl::UnimplementedError(absl::StrCat(options_.host_name, " cannot run Python functions of clients: it is simulated"));
  PW_ASSIGN_OR_RETURN(files_, options_.transport->ListenForFiles());
  return absl::OkStatus();
}

int64_t Functions::processes(const Account& account) const {
  return std::count_if(account.sessions.begin(), account.sessions.end(), [this](SessionId session) {
    const auto client = clients_.find(session);
    return client != clients_.end() && client->second->python.has_process();
  });
}

absl::Status Functions::CheckQuota(SessionId session) const {
  const Account* account = arrays_->accounts().Of(session);
  if (account == nullptr || !account->python_processes.has_value()) return absl::OkStatus();
  const int64_t there = processes(*account);
  if (there < *account->python_processes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("user '", account->user, "' has ", there, " Python processes on ", options_.host_name, ", and the quota is ",
                   *account->python_processes,
                   ": each program that calls functions there has one. End another of them, or ask an operator for more ('pathways "
                   "quota set --host-processes')"));
}

SessionPython::Environment Functions::ForSessions() {
  return {context_->strand(),
          timers_,
          &arrays_->memory(),
          &options_,
          files_.get(),
          memory_.get(),
          to_client_,
          [this](SessionId session) { return CheckQuota(session); },
          [this](const PythonCallRef& call, absl::StatusOr<std::vector<Bytes>> results) {
            if (results.ok())
              PlaceResults(call, *std::move(results));
            else
              FailHere(call, results.status());
          }};
}

void Functions::Compile(const v1::Compile& command, const Bytes& payload) {
  const ExecutableId id(command.executable());
  const SessionId session(command.session());
  absl::StatusOr<HostPart> part =
      ReadHostPart(command, payload, context_->self(), static_cast<int>(arrays_->runtime()->devices().size()));
  absl::Status status = part.status();
  if (status.ok()) status = CheckAllowed();
  if (status.ok() && context_->ended(session)) status = absl::CancelledError("the client has gone");
  if (!status.ok()) return Answer(command.executable(), "", status);
  MakeFunction(command, *std::move(part), Sha256(payload.view()));
}

void Functions::MakeFunction(const v1::Compile& command, HostPart part, std::string content) {
  const ExecutableId id(command.executable());
  const SessionId session(command.session());
  const PythonFunctionRef function(new PythonFunction{id, session, std::move(part)}, [this, alive = std::weak_ptr<bool>(alive_)](
                                                                                         PythonFunction* f) {
    if (auto client = alive.expired() ? clients_.end() : clients_.find(f->session); !alive.expired() && client != clients_.end())
      client->second->python.Unload(*f);
    delete f;
  });
  functions_[id] = function;
  std::unique_ptr<Client>& client = clients_[session];
  if (client == nullptr) client = std::make_unique<Client>(ForSessions(), session, command.function_hosts());
  auto loaded = client->loaded.extract(content);
  function->number = loaded.empty() ? next_function_++ : loaded.mapped();
  function->content = std::move(content);
  client->python.Load(*function, [this, id, name = function->part.name](const absl::Status& loaded) {
    if (!loaded.ok()) functions_.erase(id);
    Answer(id.v, name, loaded);
  });
}

void Functions::Answer(uint64_t executable, const std::string& name, const absl::Status& status) {
  v1::Compiled* compiled = context_->outbox().Add()->mutable_compiled();
  compiled->set_executable(executable);
  compiled->set_name(name);
  if (!status.ok()) *compiled->mutable_status() = ToProto(status);
}

absl::Status Functions::CheckCounts(const PythonFunction& function, const v1::Execute& command) const {
  const HostPart& part = function.part;
  if (static_cast<size_t>(command.args_size()) == part.inputs.size() &&
      static_cast<size_t>(command.results_size()) == part.outputs.size())
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the Python function ", part.name, " takes ", part.inputs.size(),
                                                 " arguments and makes ", part.outputs.size(), " results, not ",
                                                 command.args_size(), " and ", command.results_size()));
}

void Functions::Execute(const v1::Execute& command) {
  auto call = std::make_shared<PythonCall>();
  call->number = next_call_++;
  call->op = command.op();
  call->stream = command.stream();
  call->location = command.location();
  call->function = functions_.at(ExecutableId(command.executable()));
  call->task = std::make_shared<Hazards::Task>();
  const HostPart& part = call->function->part;
  const SessionId session = call->function->session;
  if (absl::Status status = CheckCounts(*call->function, command); !status.ok()) {
    for (uint64_t result : command.results()) arrays_->store().Poison(ArrayId(result), status, session);
    for (const auto& asked : command.string_results()) AnswerString(asked.query(), status);
    return context_->outbox().Done(call->op, status);
  }
  for (size_t k = 0; k < part.inputs.size(); ++k) {
    const bool text = part.inputs[k].dtype == buffers::DType::kString;
    const ArrayId array(command.args(static_cast<int>(k)));
    for (const LocalShard& shard : part.inputs[k].shards) {
      call->names.emplace_back(array, shard.index);
      call->args.push_back(text ? nullptr : arrays_->store().FindOrFailed(array, shard.index));
    }
  }
  call->texts.resize(call->args.size());
  call->status = TakeTexts(part, command, &call->texts);
  std::map<std::pair<uint32_t, int32_t>, uint64_t> queries;
  for (const auto& asked : command.string_results()) queries[{asked.result(), asked.shard()}] = asked.query();
  for (size_t k = 0; k < part.outputs.size(); ++k) {
    for (const LocalShard& shard : part.outputs[k].shards) {
      const auto query = queries.find({static_cast<uint32_t>(k), shard.index});
      call->queries.push_back(query == queries.end() ? std::nullopt : std::optional<uint64_t>(query->second));
      call->results.push_back(part.outputs[k].dtype == buffers::DType::kString ? nullptr
                                                                               : arrays_->NewShard(shard.local_device, session));
      if (call->results.back() != nullptr)
        arrays_->store().Bind(ArrayId(command.results(static_cast<int>(k))), shard.index, call->results.back(), session);
    }
  }
  for (const ShardRef& arg : call->args) {
    if (arg != nullptr) call->task->reads.push_back(arg);
  }
  call->task->run = [this, call](const absl::Status& inputs) { return Start(call, inputs); };
  clients_.at(session)->streams[call->stream].calls.push_back(call);
  arrays_->hazards().Submit(call->task);
  Advance(session, call->stream);
}

Hazards::Outcome Functions::Start(const PythonCallRef& call, const absl::Status& inputs) {
  absl::Status status = call->status;
  status.Update(inputs);
  if (context_->ended(call->function->session))
    status = absl::CancelledError("the client has gone, and with it its Python function");
  if (status.ok() && !call->turn) {
    arrays_->hazards().Hold(call->task);
    call->held = true;
    return Hazards::Outcome::kWait;
  }
  if (status.ok()) status = Copy(call);
  if (!status.ok()) Fail(call, status);
  return Hazards::Outcome::kDone;
}

// Begins to copy the arguments. An error means that nothing has begun.
absl::Status Functions::Copy(const PythonCallRef& call) {
  const HostPart& part = call->function->part;
  std::vector<int64_t> sizes;
  for (const LocalArray& array : part.inputs) {
    for (const LocalShard& shard : array.shards) {
      if (array.dtype == buffers::DType::kString) {
        sizes.push_back(static_cast<int64_t>(call->texts[sizes.size()].size()));
        continue;
      }
      const device::DeviceBuffer* buffer = call->args[sizes.size()]->buffer();
      if (buffer == nullptr)
        return absl::FailedPreconditionError(
            absl::StrCat("an argument of the Python function ", part.name, " has been donated or deleted"));
      if (buffer->dtype() != array.dtype || buffer->dims() != shard.dims)
        return absl::InvalidArgumentError(
            absl::StrCat("an argument of the Python function ", part.name, " has another type or shape"));
      sizes.push_back(shard.bytes);
    }
  }
  PW_ASSIGN_OR_RETURN(call->message,
                      OutgoingMessage::Create(absl::StrCat("{\"call\":", call->number, ",\"function\":", call->function->number,
                                                           ",\"stream\":\"", call->stream, "\""),
                                              sizes, memory_.get()));
  call->state = PythonCall::State::kCopying;
  call->begun = true;
  ++begun_[call->function->session];
  call->left = 1 + sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const ShardRef shard = call->args[i];
    if (shard == nullptr) {
      const std::string_view text = call->texts[i].view();
      std::copy(text.begin(), text.end(), call->message->part(i));
      --call->left;
      continue;
    }
    const Future<Unit> copied = sizes[i] == 0 ? shard->buffer()->Ready()
                                              : shard->buffer()->CopyToHost(call->message->part(i), static_cast<size_t>(sizes[i]),
                                                                            call->message->owner());
    arrays_->Await(copied, [this, call, shard](const absl::StatusOr<Unit>& done) {
      if (done.ok()) return Copied(call, absl::OkStatus());
      // If the shard is failing, its own error is the reason to give. It may be known only a little later.
      shard->OnSettled(
          [this, call, raw = shard.get(), error = done.status()] { Copied(call, raw->failed() ? raw->error() : error); });
    });
  }
  Copied(call, absl::OkStatus());
  return absl::OkStatus();
}

void Functions::Copied(const PythonCallRef& call, const absl::Status& status) {
  call->status.Update(status);
  if (--call->left > 0 || call->state != PythonCall::State::kCopying) return;
  call->args.clear();
  call->texts.clear();
  if (!call->status.ok()) return Fail(call, call->status);
  call->state = PythonCall::State::kCopied;
  Advance(call->function->session, call->stream);
}

// Gives the first calls of the stream their turns, and hands over those that are ready, in order.
void Functions::Advance(SessionId session, uint64_t number) {
  const auto client = clients_.find(session);
  if (client == clients_.end()) return;
  const auto found = client->second->streams.find(number);
  if (found == client->second->streams.end()) return;
  Stream& stream = found->second;
  stream.again = true;
  if (std::exchange(stream.advancing, true)) return;  // called from inside the loop below
  while (std::exchange(stream.again, false)) {
    for (size_t i = 0; !frozen_ && i < stream.calls.size() && i < kAhead && !stream.again; ++i) {
      const PythonCallRef call = stream.calls[i];
      call->turn = true;
      if (std::exchange(call->held, false)) arrays_->hazards().Release(call->task);
    }
    for (size_t i = 0; i < stream.calls.size() && !stream.again; ++i) {
      const PythonCallRef call = stream.calls[i];
      if (call->state == PythonCall::State::kSent) continue;
      if (call->state != PythonCall::State::kCopied) break;
      call->sent = context_->clock()->Now();
      client->second->python.Send(call);
    }
  }
  stream.advancing = false;
  if (stream.calls.empty()) client->second->streams.erase(found);
}

void Functions::PlaceResults(const PythonCallRef& call, std::vector<Bytes> parts) {
  const HostPart& part = call->function->part;
  if (parts.size() != call->results.size())
    return FailHere(call, absl::InternalError(absl::StrCat("the Python process returned ", parts.size(), " shards of results of ",
                                                           part.name, ", not ", call->results.size())));
  size_t i = 0;
  for (const LocalArray& array : part.outputs) {
    for (const LocalShard& shard : array.shards) {
      const size_t size = parts[i++].size();
      const bool text = array.dtype == buffers::DType::kString;
      if (text ? size <= kMostStringBytes : size == static_cast<size_t>(shard.bytes)) continue;
      const std::string wanted = text ? absl::StrCat("; strings have at most ", kMostStringBytes) : absl::StrCat(", not ", shard.bytes);
      return FailHere(call, absl::InternalError(absl::StrCat("the Python process returned ", size,
                                                             " bytes for a shard of a result of ", part.name, wanted)));
    }
  }
  call->left = 1;
  i = 0;
  for (const LocalArray& array : part.outputs) {
    for (const LocalShard& shard : array.shards) {
      const ShardRef& result = call->results[i];
      Bytes bytes = std::move(parts[i]);
      const std::optional<uint64_t> query = call->queries[i++];
      if (query.has_value()) AnswerString(*query, bytes);
      if (result == nullptr) continue;
      ++call->left;
      worker::Place(arrays_, result, {std::move(bytes), array.dtype, shard.dims, std::nullopt, false}, array.memory_kind,
                    [this, call](const absl::Status& status) { Placed(call, status); });
    }
  }
  Leave(call);
  Placed(call, absl::OkStatus());
}

void Functions::Placed(const PythonCallRef& call, const absl::Status& status) {
  call->status.Update(status);
  if (--call->left > 0) return;
  call->results.clear();
  End(call, call->status);
  context_->recorder().Span(trace::Kind::kHost, "functions", call->function->part.name, call->sent,
                            {.flow = call->op, .session = call->function->session.v});
}

void Functions::End(const PythonCallRef& call, const absl::Status& status) {
  context_->outbox().Done(call->op, status);
  if (!std::exchange(call->begun, false)) return;
  const auto begun = begun_.find(call->function->session);
  if (--begun->second == 0) begun_.erase(begun);
}

// Fails a call with an error that begins here, not with that of an input.
void Functions::FailHere(const PythonCallRef& call, const absl::Status& error) {
  Fail(call, program::WithLocation(error, call->location));
}

void Functions::Fail(const PythonCallRef& call, const absl::Status& error) {
  if (call->state == PythonCall::State::kEnded) return;
  for (const ShardRef& result : call->results) {
    if (result != nullptr) result->SetFailed(error);
  }
  for (const std::optional<uint64_t>& query : call->queries) {
    if (query.has_value()) AnswerString(*query, error);
  }
  End(call, error);
  call->args.clear();
  call->results.clear();
  Leave(call);
}

// Removes the call from its stream: the process is done with it, so the next call has its turn.
void Functions::Leave(const PythonCallRef& call) {
  call->state = PythonCall::State::kEnded;
  call->message.reset();
  const std::vector<PythonFunctionRef> kept = std::exchange(call->kept, {});  // destroyed last: that may unload functions
  const SessionId session = call->function->session;
  const auto client = clients_.find(session);
  if (client == clients_.end()) return;
  const auto stream = client->second->streams.find(call->stream);
  if (stream == client->second->streams.end()) return;
  std::erase(stream->second.calls, call);
  Advance(session, call->stream);
}

void Functions::AnswerString(uint64_t query, const absl::StatusOr<Bytes>& contents) {
  v1::Event* const event = context_->outbox().Add();
  v1::Described* const described = event->mutable_described();
  described->set_query(query);
  if (contents.ok())
    described->set_module(std::string(contents->view()));
  else
    *described->mutable_status() = ToProto(contents.status());
  context_->had().Keep(HadCommands::Kind::kQuery, query, *event);
}

void Functions::Drop(ExecutableId id) {
  auto node = functions_.extract(id);
  const auto client = node.empty() ? clients_.end() : clients_.find(node.mapped()->session);
  if (client == clients_.end()) return;
  for (auto& [number, stream] : client->second->streams) {
    for (const PythonCallRef& call : stream.calls) call->kept.push_back(node.mapped());
  }
}

bool Functions::AskStacks(SessionId session, std::function<void(absl::StatusOr<std::string>)> done) {
  const auto client = clients_.find(session);
  return client != clients_.end() && client->second->python.AskStacks(std::move(done));
}

void Functions::ReleaseOwner(SessionId session) {
  for (ExecutableId id : SortedKeysWhere(functions_, [session](const PythonFunctionRef& f) { return f->session == session; }))
    functions_.erase(id);
  auto node = clients_.extract(session);
  if (node.empty()) return;
  const std::unique_ptr<Client> client = std::move(node.mapped());
  const absl::Status gone = absl::CancelledError("the client has gone, and with it its Python process");
  client->python.Abandon(gone);
  for (auto& [number, stream] : std::exchange(client->streams, {})) {
    for (const PythonCallRef& call : stream.calls) {
      if (std::exchange(call->held, false)) arrays_->hazards().Release(call->task);  // fails it
      if (call->state != PythonCall::State::kWaiting) Fail(call, gone);  // the others fail when their arguments have come
    }
  }
}

}  // namespace pw::worker
