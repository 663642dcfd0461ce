#include "pathways/worker/worker.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/session/host_function.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

// Size of this command's part of the frame's payload.
uint64_t PayloadBytes(const v1::Command& command) {
  switch (command.kind_case()) {
    case v1::Command::kCompile: {
      const uint64_t program = command.compile().program_bytes(), options = command.compile().options_bytes();
      return program + options < program ? UINT64_MAX : program + options;
    }
    case v1::Command::kPut:
      return command.put().payload_bytes();
    case v1::Command::kChunk:
      return command.chunk().payload_bytes();
    case v1::Command::kDataflow:
      return command.dataflow().payload_bytes();
    case v1::Command::kHostReply: {
      uint64_t sum = 0;
      for (uint64_t bytes : command.host_reply().result_bytes()) {
        if (sum + bytes < sum) return UINT64_MAX;
        sum += bytes;
      }
      return sum;
    }
    default:
      return 0;
  }
}

absl::Status CheckPayloads(const v1::ToWorker& batch, size_t size) {
  uint64_t left = size;
  for (const v1::Command& command : batch.commands()) {
    const uint64_t bytes = PayloadBytes(command);
    if (bytes > left)
      return absl::InvalidArgumentError(absl::StrCat("a frame's messages announce more payload than its ", size, " bytes"));
    left -= bytes;
  }
  if (left > 0)
    return absl::InvalidArgumentError(absl::StrCat(left, " bytes of a frame's payload belong to none of its messages"));
  return absl::OkStatus();
}

// The heartbeat limit is three intervals (worker.proto).
PeerConnections::Options PeerOptions(const v1::Welcome& welcome) {
  return {.incarnation = welcome.incarnation(),
          .heartbeat_limit = 3 * absl::Seconds(std::clamp(welcome.heartbeat_seconds(), 0.0, 1e9)),
          .grace = absl::Seconds(std::clamp(welcome.grace_seconds(), 0.0, 1e9))};
}

}  // namespace

Worker::Worker(const Environment& environment, net::FrameSink* sink, const v1::Welcome& welcome)
    : context_(environment.strand, environment.clock, sink, HostId(welcome.host())),
      host_memory_({.shares = environment.shares_memory && welcome.takes_shared(),
                    .peers_in_process = environment.peers_in_process,
                    .copy_pool = environment.copy_pool}),
      arrays_(&context_, environment.runtime, environment.limits.device_memory_bytes,
              environment.holdings == nullptr ? nullptr : environment.holdings->ledger),
      host_quota_(&arrays_.accounts()),
      order_(static_cast<int>(environment.runtime->devices().size()), &arrays_.hazards()),
      spill_(&arrays_),
      checksum_(environment.checksum),
      examine_machine_(environment.examine_machine),
      program_nodes_(&context_, &arrays_.store(), [this](const v1::Command& command) { Dispatch(command, Bytes()); }),
      programs_(&context_, environment.runtime, environment.compile_pool, environment.compiles_of_one, environment.compile_cache,
                environment.kept_programs),
      runner_({.context = &context_,
               .arrays = &arrays_,
               .order = &order_,
               .spill = &spill_,
               .programs = &programs_,
               .next_launch_id = environment.next_launch_id,
               .launch_failed = [this](const v1::LaunchFailed& failed) { housekeeping_.TellFailed(failed); }}),
      lanes_(&context_, &host_memory_.blocks(), environment.timers, environment.limits.staging_bytes, &host_quota_,
             &arrays_.memory()),
      puts_(&context_, &arrays_, &host_memory_.blocks(), &lanes_, environment.limits.staging_bytes, &host_quota_),
      repeated_(&context_, &puts_),
      fetches_(&context_, &arrays_, &host_memory_, &lanes_, environment.limits.fetch_bytes, &host_quota_),
      aliases_(&context_, &arrays_),
      expectations_(&context_, &arrays_),
      host_calls_(&context_, environment.runtime, &lanes_),
      functions_(
          &context_, &arrays_, environment.timers, environment.python,
          [this](const device::HostCallRequest& request, std::function<void(device::HostCallReply)> done) {
            host_calls_.Call(request, std::move(done));
          },
          environment.python_processes),
      stacks_({&context_, &host_calls_, &functions_, environment.timers, environment.python.threads, environment.native_stacks}),
      peers_(&context_, &host_memory_, environment.transport, environment.timers, PeerOptions(welcome)),
      loops_(MakeRunContext()),
      choices_(MakeRunContext()),
      reports_(&context_, &peers_.frames(), environment.timers),
      moves_(&context_, &arrays_, &host_memory_, &peers_.transfers(), environment.limits.staging_bytes, &host_quota_),
      routes_(&context_, &arrays_, &host_memory_, &host_quota_, [this] { return &housekeeping_.runtime(); }),
      files_(&context_, &arrays_, environment.client_files, environment.disk, environment.limits.file_bytes, &host_quota_),
      profiles_(&context_, environment.runtime, environment.compile_pool),
      tracing_(&context_.recorder(), &profiles_),
      housekeeping_(&context_, &peers_.frames(), environment.timers, MakeDuties(), OperatorsOfPrograms(),
                    [this](const std::string& argument, const absl::Status& why) {
                      routes_.Refuse(argument, why);
                      program_nodes_.Refuse(argument, why);
                    }) {
  peers_.transfers().set_checksum(checksum_);
  if (environment.holdings != nullptr) {
    context_.TakeHad(std::move(environment.holdings->had));
    BindArrays(*environment.holdings, &arrays_.store());
    Report(*environment.holdings, &context_.outbox());
  }
  if (!environment.shares_memory) return;
  if (environment.transport != nullptr) {
    auto files = environment.transport->ListenForFiles();  // simulated networks have no such sockets
    if (files.ok()) lanes_.ShareMemory(*std::move(files));
  }
  Executor* const sweeper = environment.copy_pool != nullptr ? environment.copy_pool : environment.strand;
  if (environment.timers != nullptr)
    host_memory_.shared().SweepEvery(net::SharedMemoryFactory::kSweepPeriod, environment.timers, sweeper);
  if (net::VerifyProbe(net::ReadName(welcome.probe().memory()), welcome.probe().secret()))
    context_.outbox().Add()->mutable_shared_verified();
}

Worker::~Worker() = default;

absl::Status Worker::Handle(const v1::ToWorker& batch, const Bytes& payload) {
  if (absl::Status status = CheckPayloads(batch, payload.size()); !status.ok()) return status;
  if (batch.reports_seen() > 0) reports_.Seen(batch.reports_seen());
  for (const v1::Settled& settled : batch.settled()) context_.had().Settle(settled);
  uint64_t offset = 0;
  for (const v1::Command& command : batch.commands()) {
    const uint64_t bytes = PayloadBytes(command);
    if (const v1::Command* const part = repeated_.NewPart(command))
      Dispatch(*part, bytes == 0 ? Bytes() : payload.Slice(offset, bytes));
    offset += bytes;
  }
  return absl::OkStatus();
}

void Worker::Dispatch(const v1::Command& command, const Bytes& payload) {
  if (context_.recorder().on()) tracing_.Prepared(command);
  switch (command.kind_case()) {
    case v1::Command::kPeers:
      return SetPeers(command.peers());
    case v1::Command::kCompile:
      return Compile(command.compile(), payload);
    case v1::Command::kDescribe:
      return programs_.Describe(command.describe());
    case v1::Command::kExecute:
      return Execute(command.execute());
    case v1::Command::kGrant:
      return order_.Grant(command.grant());
    case v1::Command::kPut:
      return puts_.Put(command.put(), payload);
    case v1::Command::kChunk:
      if (context_.ended(SessionId(command.chunk().session()))) return;  // shared memory too: the controller has released it
      return puts_.AddChunk(command.chunk(), payload);
    case v1::Command::kAbortTransfer:
      if (context_.ended(SessionId(command.abort_transfer().session()))) return;
      return puts_.Abort(command.abort_transfer());
    case v1::Command::kFetch:
      return fetches_.Fetch(command.fetch());
    case v1::Command::kSharedTaken:
      return fetches_.Taken(command.shared_taken());
    case v1::Command::kAdmitLane:
      return lanes_.Admit(command.admit_lane());
    case v1::Command::kFailLane:
      return lanes_.Fail(command.fail_lane());
    case v1::Command::kAlias:
    case v1::Command::kBitcast:
    case v1::Command::kPoison:
      return aliases_.Handle(command);
    case v1::Command::kMove:
      return moves_.Move(command.move());
    case v1::Command::kSaveTiles:
    case v1::Command::kCommitSave:
    case v1::Command::kDropSave:
    case v1::Command::kLoadTiles:
      return files_.Handle(command);
    case v1::Command::kRelease:
      return Release(command.release());
    case v1::Command::kExpect:
      return expectations_.Expect(command.expect());
    case v1::Command::kFulfil:
      return expectations_.Fulfil(command.fulfil());
    case v1::Command::kBeginLoop:
    case v1::Command::kLoopLease:
      return loops_.Handle(command);
    case v1::Command::kBeginChoice:
      return choices_.Begin(command.begin_choice());
    case v1::Command::kHostReply:
      return host_calls_.Reply(command.host_reply(), payload);
    case v1::Command::kDataflow:
      return housekeeping_.OnFrame(command.dataflow(), payload);
    case v1::Command::kWelcome:
    case v1::Command::kPing:
    case v1::Command::kCertificate:
    case v1::Command::kNewKey:
    case v1::Command::kResumed:
    case v1::Command::kGivenUp:
    case v1::Command::kShutdown:
    case v1::Command::kAbortLaunch:
    case v1::Command::kDropExecutable:
    case v1::Command::kReleaseOwner:
    case v1::Command::KIND_NOT_SET:
      return;  // for the link, or from a newer controller
  }
}

void Worker::Compile(const v1::Compile& command, const Bytes& payload) {
  if (command.format() == session::kHostFunctionFormat) return functions_.Compile(command, payload);
  programs_.Compile(command, payload);
}

void Worker::Execute(const v1::Execute& command) {
  if (functions_.Has(ExecutableId(command.executable()))) return functions_.Execute(command);
  runner_.Execute(command);
}

void Worker::SetPeers(const v1::Peers& peers) {
  programs_.SetPeers(peers);
  peers_.SetPeers(peers);
  reports_.SetPeers(peers);
}

RunContext Worker::MakeRunContext() {
  return {&context_, &arrays_, &order_, &program_nodes_, &expectations_, &peers_.frames(), [this](uint64_t graph) {
            return housekeeping_.runtime().FindPart({dataflow::kControllerHost, graph});
          }};
}

dataflow::Operators Worker::OperatorsOfPrograms() {
  dataflow::Operators operators = program_nodes_.Operators();
  routes_.AddTo(&operators);
  return operators;
}

Housekeeping::Duties Worker::MakeDuties() {
  Housekeeping::Duties duties;
  duties.configure = [this](const v1::HostConfig& config) { Configure(config); };
  duties.health = [this] { return Health(); };
  duties.metrics = [this] { return Metrics(); };
  duties.clean_up = [this](const v1::CleanUp& what) { CleanUp(what); };
  duties.abort_launch = [this](const v1::AbortLaunch& abort) {
    arrays_.runtime()->AbortLaunch(ProgramExecutor::LaunchNumber(abort.launch()), FromProto(abort.status()));
  };
  duties.end_trace = [this](const v1::EndRecording& how, Tracing::Ended ended) { tracing_.End(how, std::move(ended)); };
  duties.read_profile = [this](const v1::ProfilePart& part) { return profiles_.Read(part); };
  duties.examine = [this] {
    v1::Examination examination = examine_machine_ ? examine_machine_() : v1::Examination();
    runner_.Examine(&examination);
    return examination;
  };
  duties.stacks = [this](const v1::StackQuestion& question, Stacks::Done done) { stacks_.Collect(question, std::move(done)); };
  return duties;
}

v1::HealthReport Worker::Health() const {
  v1::HealthReport report;
  report.set_commands_parked(arrays_.hazards().parked());
  report.set_executions_waiting(order_.held());
  report.set_memory_waits(arrays_.memory().waiting());
  for (const auto& [user, account] : arrays_.accounts().all()) {
    auto* use = report.add_users();
    use->set_user(user);
    int64_t most = 0;
    for (int d = 0; d < arrays_.ledger().devices(); ++d) most = std::max(most, arrays_.ledger().HeldBy(d, account.sessions));
    use->set_device_bytes(most);
    use->set_python_processes(functions_.processes(account));
    use->set_host_bytes(host_quota_.HeldBy(account.sessions));
  }
  std::map<std::string, uint32_t> position;
  const auto waits = [&](SessionId session, const std::string& user, std::string why) {
    auto* wait = report.add_quota_waits();
    wait->set_session(session.v);
    wait->set_user(user);
    wait->set_position(++position[user]);
    wait->set_why(std::move(why));
  };
  for (MemoryGate::QuotaWait& wait : arrays_.memory().quota_waits()) waits(wait.session, wait.user, std::move(wait.why));
  for (const ClientLanes::Waiting& wait : lanes_.quota_waits()) {
    if (const Account* account = arrays_.accounts().Of(wait.session))
      waits(wait.session, account->user, host_quota_.Why(HostQuota::Way::kIn, wait.session, wait.bytes));
  }
  return report;
}

v1::MetricsReport Worker::Metrics() const {
  v1::MetricsReport report;
  *report.mutable_memory() = Memory();
  report.set_launches(order_.ended());
  report.set_device_microseconds(order_.device_microseconds());
  report.set_spilled_bytes(arrays_.ledger().moved_out_bytes());
  report.set_moved_out(spill_.moved_out());
  report.set_moved_back(spill_.moved_back());
  *report.mutable_dataflow() = housekeeping_.Counters();
  return report;
}

void Worker::Configure(const v1::HostConfig& config) {
  if (config.version() < configuration_) return;  // an outdated configuration
  configuration_ = config.version();
  housekeeping_.SetCoalescing(config.coalescing());
  peers_.transfers().set_checksum(checksum_ || config.checksum());
  spill_.Enable(config.spill());
  arrays_.SetAccounts(config, [this](SessionId session) { return host_quota_.Holds(session); });
  lanes_.MoreRoom();
  fetches_.MoreRoom();
  tracing_.Record(config);
}

void Worker::CleanUp(const v1::CleanUp& what) {
  for (uint64_t executable : what.executables()) {
    programs_.Drop(ExecutableId(executable));
    functions_.Drop(ExecutableId(executable));
  }
  for (uint64_t session : what.sessions()) ReleaseOwner(SessionId(session));
}

void Worker::Release(const v1::Release& command) {
  for (uint64_t array : command.arrays()) arrays_.store().Release(ArrayId(array));
}

void Worker::ReleaseOwner(SessionId session) {
  context_.End(session);
  arrays_.store().ReleaseOwner(session);
  programs_.ReleaseOwner(session);
  fetches_.ReleaseOwner(session);
  host_calls_.ReleaseOwner(session);
  functions_.ReleaseOwner(session);
  // Fails the session's pending transfers and all that depends on them.
  puts_.ReleaseOwner(session);
  lanes_.ReleaseOwner(session);
  loops_.ReleaseOwner(session);
  choices_.ReleaseOwner(session);
  expectations_.ReleaseOwner(session);
  moves_.ReleaseOwner(session);
  order_.ReleaseOwner(session);
  host_memory_.shared().Forget(session.v);
}

std::set<SessionId> Worker::HeldSessions() const {
  std::set<SessionId> sessions = functions_.WithProcesses();
  for (SessionId session : context_.had().sessions()) sessions.insert(session);
  arrays_.store().ForEachArray([&](ArrayId, SessionId session, const ShardRef&, const auto&) { sessions.insert(session); });
  return sessions;
}

Holdings Worker::TakeHoldings(std::set<SessionId> sessions) {
  Holdings holdings;
  for (const std::set<SessionId>& busy : {runner_.Computing(), functions_.Calling()}) {
    for (SessionId session : busy) {
      if (sessions.erase(session) > 0) holdings.cut.insert(session);
    }
  }
  runner_.Unbegin();
  functions_.Unbegin();
  holdings.ledger = arrays_.shared_ledger();
  TakeArrays(arrays_.store(), sessions, &holdings);
  holdings.had = std::move(context_.had());
  holdings.had.KeepEnded(sessions);
  return holdings;
}

v1::MemoryReport Worker::Memory() const {
  v1::MemoryReport report;
  report.set_arrays(arrays_.store().arrays());
  for (int d = 0; d < static_cast<int>(arrays_.runtime()->devices().size()); ++d) {
    auto* device = report.add_devices();
    device->set_used_bytes(arrays_.ledger().used(d));
    device->set_peak_bytes(arrays_.ledger().peak(d));
    device->set_limit_bytes(arrays_.ledger().limit());
    if (arrays_.ledger().limit() == 0) {
      if (absl::StatusOr<device::MemoryUsage> usage = arrays_.runtime()->Memory(d); usage.ok())
        device->set_limit_bytes(usage->limit_bytes);
    }
    for (const auto& [session, bytes] : arrays_.ledger().UsedBySession(d)) (*device->mutable_used_by_session())[session] = bytes;
  }
  return report;
}

void Worker::Idle() {
  arrays_.memory().Poll();
  context_.outbox().Flush();
}

}  // namespace pw::worker
