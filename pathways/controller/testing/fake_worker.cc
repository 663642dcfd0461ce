#include "pathways/controller/testing/fake_worker.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "pathways/base/request_name.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/byte_strides.h"
#include "pathways/buffers/region_copy.h"
#include "pathways/program/repeated_moves.h"
#include "pathways/session/host_function.h"
#include "pathways/session/wire.h"

namespace pw::controller {

namespace v1 = ::pathways::v1;
using v1::Command;

namespace {

buffers::Dims ToDims(const google::protobuf::RepeatedField<int64_t>& field) { return {field.begin(), field.end()}; }

size_t PayloadOf(const Command& c) {
  switch (c.kind_case()) {
    case Command::kCompile:
      return c.compile().program_bytes() + c.compile().options_bytes();
    case Command::kPut:
      return c.put().payload_bytes();
    case Command::kChunk:
      return c.chunk().payload_bytes();
    case Command::kDataflow:
      return c.dataflow().payload_bytes();
    case Command::kHostReply: {
      size_t total = 0;
      for (uint64_t bytes : c.host_reply().result_bytes()) total += bytes;
      return total;
    }
    default:
      return 0;
  }
}

uint64_t SessionOf(const Command& c) {
  switch (c.kind_case()) {
    case Command::kPut:
      return c.put().session();
    case Command::kAlias:
      return c.alias().session();
    case Command::kMove:
      return c.move().session();
    case Command::kBitcast:
      return c.bitcast().session();
    case Command::kExecute:
      return SessionOr(c.execute().session(), c.execute().op()).v;
    case Command::kLoadTiles:
      return c.load_tiles().session();
    default:
      return 0;
  }
}

int WidthOf(int dtype) { return buffers::HostBytes(static_cast<buffers::DType>(dtype)); }

}  // namespace

FakeWorker::FakeWorker(Options options, Hub* hub) : options_(std::move(options)), hub_(hub) { hub_->workers.insert(this); }

FakeWorker::~FakeWorker() { hub_->workers.erase(this); }

void FakeWorker::Send(const v1::FromWorker& message, std::vector<Bytes> payload, net::Lane lane) {
  if (silent) return;
  if (stream_ == nullptr) return connection_->Send(message.SerializeAsString(), std::move(payload), lane);
  stream_->Send(message.SerializeAsString(), std::move(payload), lane);
}

bool FakeWorker::Has(uint64_t array) const {
  auto it = shards_.lower_bound({array, 0});
  return it != shards_.end() && it->first.first == array;
}

int FakeWorker::Count(Command::KindCase kind) const {
  return static_cast<int>(std::count_if(log.begin(), log.end(), [kind](const Command& c) { return c.kind_case() == kind; }));
}

void FakeWorker::OnClosed(const absl::Status& reason) {
  closed = true;
  close_reason = reason;
}

void FakeWorker::OnFrame(net::Frame frame) {
  ++frames;
  v1::ToWorker batch;
  if (!batch.ParseFromString(frame.header)) return connection_->Close(absl::InternalError("not a ToWorker"));
  reports_seen = std::max(reports_seen, batch.reports_seen());
  for (const v1::Settled& told : batch.settled()) settled[told.session()] = told;
  size_t offset = 0;
  for (Command& command : *batch.mutable_commands()) {
    const size_t size = PayloadOf(command);
    Handle(command, std::string(frame.payload.view().substr(offset, size)));
    offset += size;
  }
  if (stream_ != nullptr && batch.has_received()) {
    EXPECT_TRUE(stream_->Acknowledge({batch.received().urgent(), batch.received().bulk()}).ok());
  }
  if (stream_ != nullptr && !batch.beside())
    stream_->Receive(batch.bulk() ? net::Lane::kBulk : net::Lane::kUrgent, frame.header.size() + frame.payload.size());
  if (offset != frame.payload.size()) connection_->Close(absl::InternalError("the payload does not add up"));
  RunReady();
}

FakeDataflow::Told FakeWorker::Told() {
  FakeDataflow::Told told;
  told.configure = [this](const v1::HostConfig& told) {
    config = told;
    ++configured;
  };
  told.clean_up = [this](const v1::CleanUp& what) { CleanUp(what); };
  told.abort_launch = [this](const v1::AbortLaunch& abort) { *log.emplace_back().mutable_abort_launch() = abort; };
  return told;
}

void FakeWorker::CleanUp(const v1::CleanUp& what) {
  std::vector<Command> commands;
  for (uint64_t id : what.executables()) commands.emplace_back().mutable_drop_executable()->add_executables(id);
  for (uint64_t id : what.sessions()) commands.emplace_back().mutable_release_owner()->set_session(id);
  for (const Command& command : commands) Handle(command, "");
}

bool FakeWorker::HandleLink(const Command& command) {
  switch (command.kind_case()) {
    case Command::kWelcome:
      welcome = command.welcome();
      stream_ = std::make_unique<net::ResumableLink>(connection_.get(), !welcome.key().empty());
      dataflow_ = std::make_unique<FakeDataflow>(
          HostId(welcome.host()), options_.devices,
          [this](const v1::FromWorker& message, std::vector<Bytes> payload) { Send(message, std::move(payload)); }, Told());
      return true;
    case Command::kPeers:
      peers = command.peers();
      return true;
    case Command::kPing: {
      v1::FromWorker message;
      message.add_events()->mutable_pong()->set_sequence(command.ping().sequence());
      if (stream_ != nullptr && stream_->resumable()) message.mutable_received()->set_urgent(stream_->received().urgent);
      if (stream_ != nullptr && stream_->resumable()) message.mutable_received()->set_bulk(stream_->received().bulk);
      SendBeside(message);
      return true;
    }
    case Command::kResumed: {
      const auto& received = command.resumed().received();
      EXPECT_TRUE(stream_->Resume(connection_.get(), {received.urgent(), received.bulk()}).ok());
      stream_->TellAgain();
      ++resumed;
      return true;
    }
    case Command::kGivenUp:
      given_up = command.given_up().reason();
      given_up_by = command.given_up().incarnation();
      return true;
    case Command::kNewKey: {
      v1::FromWorker message;
      message.add_events()->mutable_public_key()->set_der(options_.next_public_key);
      Send(message);
      return true;
    }
    case Command::kShutdown:
    case Command::kCertificate:
      return true;
    default:
      return false;
  }
}

void FakeWorker::Handle(const Command& command, std::string payload) {
  if (command.kind_case() != Command::kPing) log.push_back(command);
  if (HandleLink(command)) return;
  if (command.has_chunk()) {
    Transfer& transfer = incoming_[command.chunk().transfer()];
    transfer.data += payload;
    transfer.received += payload.size();
    return;
  }
  if (command.has_abort_transfer()) {
    incoming_[command.abort_transfer().transfer()].failed = session::StatusFrom(command.abort_transfer().status());
    return;
  }
  if (command.has_dataflow() && deaf_dataflow) return;
  if (command.has_dataflow()) return dataflow_->OnFrame(command.dataflow(), std::move(payload));
  if (command.has_host_reply()) {
    host_replies[command.host_reply().call()] = {command.host_reply(), payload};
    return;
  }
  if (command.has_put() && command.put().payload_bytes() > 0) incoming_[command.put().transfer()] = {payload, payload.size(), {}};
  if (command.has_compile()) {
    auto& compiled = *held_compiled_.add_events()->mutable_compiled();
    std::string toy = payload.substr(0, command.compile().program_bytes());
    if (::pathways::v1::HostFunction function;
        command.compile().format() == session::kHostFunctionFormat && function.ParseFromString(toy))
      toy = function.text();
    compiled.ParseFromString(toy);
    compiled.set_executable(command.compile().executable());
    if (reads_newer) compiled.clear_newer_than_runtime();
    if (compiled.newer_than_runtime())
      session::ToProto(absl::InvalidArgumentError("cannot read it"), compiled.mutable_status());
    else if (compiled.name() == "refuse")
      session::ToProto(absl::InvalidArgumentError("toy refusal"), compiled.mutable_status());
    else
      executables_[command.compile().executable()] = compiled;
    std::vector<int> shards;
    for (int s = 0; s < command.compile().local_devices_size(); ++s) {
      if (command.compile().hosts().empty() || command.compile().hosts(s) == welcome.host()) shards.push_back(s);
    }
    executable_shards_[command.compile().executable()] = {command.compile().session(), std::move(shards)};
    if (!hold_compiled) ReleaseCompiled();
    return;
  }
  if (command.has_grant()) granted_.insert(command.grant().gangs().begin(), command.grant().gangs().end());
  if (command.has_release_owner()) {
    std::erase_if(waiting_, [&](const Command& c) { return SessionOf(c) == command.release_owner().session(); });
  }
  if (command.has_move()) {
    Command plain = command;
    *plain.mutable_move() = program::Expanded(command.move());
    return Wait(plain);
  }
  Wait(command);
}

void FakeWorker::Wait(const Command& command) {
  for (const Key& key : Outputs(command)) {
    shards_[key] = Shard{};
    owners_[key.first] = SessionOf(command);
  }
  if (!command.has_move() || command.move().sends_size() == 0 || command.move().receives_size() == 0) {
    waiting_.push_back(command);
    return;
  }
  // Sends do not wait for receives of the same move.
  Command sends = command, receives = command;
  sends.mutable_move()->clear_receives();
  sends.mutable_move()->set_op(0);
  receives.mutable_move()->clear_sends();
  waiting_.push_back(std::move(sends));
  waiting_.push_back(std::move(receives));
}

std::vector<FakeWorker::Key> FakeWorker::Outputs(const Command& c) const {
  std::vector<Key> keys;
  if (c.has_put()) {
    for (const auto& p : c.put().placements()) keys.push_back({c.put().array(), p.shard()});
  } else if (c.has_alias()) {
    for (const auto& item : c.alias().items()) keys.push_back({item.array(), item.shard()});
  } else if (c.has_move()) {
    for (const auto& r : c.move().receives()) keys.push_back({r.array(), r.shard()});
  } else if (c.has_load_tiles()) {
    for (const auto& tile : c.load_tiles().tiles()) {
      for (const auto& p : tile.placements()) keys.push_back({c.load_tiles().array(), p.shard()});
    }
  } else if (c.has_execute()) {
    for (uint64_t result : c.execute().results()) {
      for (int s : executable_shards_.at(c.execute().executable()).second) keys.push_back({result, s});
    }
  } else if (c.has_bitcast()) {
    for (auto it = shards_.lower_bound({c.bitcast().source(), 0}); it != shards_.end() && it->first.first == c.bitcast().source();
         ++it) {
      keys.push_back({c.bitcast().result(), it->first.second});
    }
  }
  return keys;
}

std::vector<FakeWorker::Key> FakeWorker::Inputs(const Command& c) const {
  std::vector<Key> keys;
  auto all_of = [&](uint64_t array) {
    for (auto it = shards_.lower_bound({array, 0}); it != shards_.end() && it->first.first == array; ++it)
      keys.push_back(it->first);
  };
  if (c.has_fetch()) keys.push_back({c.fetch().array(), c.fetch().shard()});
  if (c.has_alias()) {
    for (const auto& item : c.alias().items()) keys.push_back({item.source_array(), item.source_shard()});
  }
  for (const auto& tile : c.save_tiles().tiles()) keys.push_back({c.save_tiles().array(), tile.shard()});
  if (c.has_bitcast()) all_of(c.bitcast().source());
  if (c.has_execute()) {
    for (uint64_t arg : c.execute().args()) all_of(arg);
  }
  if (c.has_move()) {
    for (const auto& send : c.move().sends()) keys.push_back({send.array(), send.shard()});
    for (const auto& receive : c.move().receives()) {
      for (const auto& piece : receive.pieces()) {
        if (piece.source_array() != 0) keys.push_back({piece.source_array(), piece.source_shard()});
      }
    }
  }
  return keys;
}

bool FakeWorker::Ready(const Command& c) const {
  if (c.has_execute() && c.execute().grant() != 0 && !granted_.contains(c.execute().grant())) return false;
  if (c.has_put()) {
    if (c.put().total_bytes() == 0) return true;
    auto it = incoming_.find(c.put().transfer());
    return it != incoming_.end() && (it->second.failed.has_value() || it->second.received >= c.put().total_bytes());
  }
  for (const Key& key : Inputs(c)) {
    auto it = shards_.find(key);
    if (it != shards_.end() && !it->second.value.has_value()) return false;
  }
  if (c.has_move()) {
    for (const auto& receive : c.move().receives()) {
      for (const auto& piece : receive.pieces()) {
        if (piece.source_array() == 0 && !hub_->transfers.contains(piece.transfer())) return false;
      }
    }
  }
  if (!c.has_release()) return true;
  for (const Command& earlier : waiting_) {
    if (&earlier == &c) return true;
    for (const Key& key : Inputs(earlier)) {
      if (std::find(c.release().arrays().begin(), c.release().arrays().end(), key.first) != c.release().arrays().end())
        return false;
    }
  }
  return true;
}

void FakeWorker::RunReady() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (!Ready(*it)) {
      ++it;
      continue;
    }
    const Command command = *it;
    it = waiting_.erase(it);
    Run(command);
    it = waiting_.begin();
  }
}

void FakeWorker::Run(const Command& c) {
  switch (c.kind_case()) {
    case Command::kPut:
      return RunPut(c.put());
    case Command::kFetch:
      return RunFetch(c.fetch());
    case Command::kExecute:
      return RunExecute(c.execute());
    case Command::kMove:
      return RunMove(c.move());
    case Command::kAlias:
      return RunAlias(c.alias());
    case Command::kBitcast:
      return RunBitcast(c.bitcast());
    case Command::kSaveTiles:
    case Command::kCommitSave:
    case Command::kDropSave:
    case Command::kLoadTiles:
      return RunFiles(c);
    case Command::kRelease:
      for (uint64_t array : c.release().arrays())
        std::erase_if(shards_, [array](const auto& entry) { return entry.first.first == array; });
      return;
    case Command::kReleaseOwner:
      for (const auto& [array, session] : owners_) {
        if (session == c.release_owner().session())
          std::erase_if(shards_, [a = array](const auto& entry) { return entry.first.first == a; });
      }
      std::erase_if(executables_,
                    [&](const auto& e) { return executable_shards_[e.first].first == c.release_owner().session(); });
      return;
    case Command::kDropExecutable:
      for (uint64_t executable : c.drop_executable().executables()) dropped_.insert(executables_.extract(executable));
      return;
    case Command::kDescribe: {
      v1::FromWorker message;
      auto& described = *message.add_events()->mutable_described();
      described.set_query(c.describe().query());
      described.set_text("text of " + executables_[c.describe().executable()].name());
      (*described.mutable_numbers())["flops"] = 12;
      return Send(message);
    }
    default:
      return;
  }
}

absl::StatusOr<std::string> FakeWorker::Read(const Key& key) const {
  auto it = shards_.find(key);
  if (it == shards_.end())
    return absl::NotFoundError(absl::StrCat("array ", key.first, " shard ", key.second, " is not on ", options_.name));
  return *it->second.value;
}

void FakeWorker::RunPut(const v1::Put& put) {
  absl::StatusOr<std::string> value = std::string();
  if (put.total_bytes() > 0) {
    Transfer transfer = std::move(incoming_[put.transfer()]);
    incoming_.erase(put.transfer());
    if (transfer.failed.has_value())
      value = *transfer.failed;
    else
      value = std::move(transfer.data);
  }
  if (value.ok() && put.has_byte_strides()) {
    auto dense =
        buffers::Densify(Bytes::Copy(*value), WidthOf(put.dtype()), ToDims(put.dims()), ToDims(put.byte_strides()), 1 << 30);
    if (dense.ok())
      value = std::string(dense->view());
    else
      value = dense.status();
  }
  for (const auto& p : put.placements()) shards_[{put.array(), p.shard()}] = {put.dtype(), ToDims(put.dims()), value};
  Done(put.op(), value.status());
}

void FakeWorker::RunFetch(const v1::Fetch& fetch) {
  const Key key{fetch.array(), fetch.shard()};
  absl::StatusOr<std::string> value = Read(key);
  if (value.ok() && fetch.has_byte_strides()) {
    const Shard& shard = shards_[key];
    auto strided =
        buffers::Stridify(Bytes::Copy(*value), WidthOf(shard.dtype), shard.dims, ToDims(fetch.byte_strides()), 1 << 30);
    if (strided.ok())
      value = std::string(strided->view());
    else
      value = strided.status();
  }
  SendFetched(fetch.fetch(), value);
}

void FakeWorker::SendFetched(uint64_t fetch, const absl::StatusOr<std::string>& value) {
  v1::FromWorker message;
  auto& fetched = *message.add_events()->mutable_fetched();
  fetched.set_fetch(fetch);
  session::ToProto(value.status(), fetched.mutable_status());
  if (!value.ok()) return Send(message);
  fetched.set_total_bytes(value->size());
  if (value->size() <= chunk_bytes) {
    fetched.set_payload_bytes(value->size());
    return Send(message, {Bytes::Copy(*value)});
  }
  Send(message);
  for (size_t offset = 0; offset < value->size(); offset += chunk_bytes) {
    const std::string piece = value->substr(offset, chunk_bytes);
    v1::FromWorker part;
    auto& chunk = *part.add_events()->mutable_chunk();
    chunk.set_transfer(fetch);
    chunk.set_offset(offset);
    chunk.set_total_bytes(value->size());
    chunk.set_payload_bytes(piece.size());
    Send(part, {Bytes::Copy(piece)}, net::Lane::kBulk);
  }
}

void FakeWorker::RunExecute(const v1::Execute& execute) {
  const auto dropped = dropped_.find(execute.executable());  // dropped after the command came, before its turn
  const v1::Compiled compiled = dropped != dropped_.end() ? dropped->second : executables_[execute.executable()];
  const std::vector<int> shards = executable_shards_[execute.executable()].second;
  absl::Status status;
  if (compiled.name() == "fail") status = absl::ResourceExhaustedError("toy failure");
  for (int s : shards) {
    for (uint64_t arg : execute.args()) status.Update(Read({arg, s}).status());
  }
  SendStrings(execute, status);
  for (int k = 0; k < execute.results_size(); ++k) {
    const auto& output = compiled.outputs(k);
    if (output.dtype() == static_cast<int>(buffers::DType::kString)) continue;
    for (int s : shards) {
      Shard& shard = shards_[{execute.results(k), s}];
      shard = {output.dtype(), ToDims(output.shard_dims()), status.ok() ? absl::StatusOr<std::string>("") : status};
      if (!status.ok()) continue;
      std::string data = k < execute.args_size() ? *Read({execute.args(k), s}) : std::string();
      if (compiled.name() == "add") {
        const std::string other = *Read({execute.args(1), s});
        std::vector<float> x(data.size() / 4), y(x.size());
        std::memcpy(x.data(), data.data(), data.size());
        std::memcpy(y.data(), other.data(), data.size());
        for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
        std::memcpy(data.data(), x.data(), data.size());
      }
      shard.value = data;
    }
  }
  for (int32_t donated : compiled.donated_inputs()) {
    if (std::find(execute.non_donatable().begin(), execute.non_donatable().end(), donated) != execute.non_donatable().end())
      continue;
    std::erase_if(shards_, [&](const auto& entry) { return entry.first.first == execute.args(donated); });
  }
  Done(execute.op(), status, execute.report_device_time() ? std::optional<double>(7.5) : std::nullopt);
}

void FakeWorker::RunMove(const v1::Move& move) {
  absl::Status status;
  for (const auto& send : move.sends()) {
    absl::StatusOr<std::string> value = Read({send.array(), send.shard()});
    if (value.ok()) {
      const Shard& shard = shards_[{send.array(), send.shard()}];
      const buffers::Region region{ToDims(send.region().start()), ToDims(send.region().size())};
      std::string piece(region.elements() * WidthOf(shard.dtype), '\0');
      status.Update(buffers::CopyDenseRegion(WidthOf(shard.dtype), reinterpret_cast<const uint8_t*>(value->data()), shard.dims,
                                             region, reinterpret_cast<uint8_t*>(piece.data()), region.size,
                                             {buffers::Dims(region.size.size(), 0), region.size}));
      hub_->bytes += piece.size();
      value = piece;
    }
    status.Update(value.status());
    hub_->transfers.insert({send.transfer(), value});
  }
  for (const auto& receive : move.receives()) {
    const buffers::Dims dims = ToDims(receive.dims());
    const int width = WidthOf(receive.dtype());
    std::string data(buffers::DenseBytes(static_cast<buffers::DType>(receive.dtype()), dims).value_or(0), '\xEE');
    absl::Status failed;
    for (const auto& piece : receive.pieces()) {
      const buffers::Region to{ToDims(piece.to().start()), ToDims(piece.to().size())};
      const bool local = piece.source_array() != 0;
      absl::StatusOr<std::string> source =
          local ? Read({piece.source_array(), piece.source_shard()}) : hub_->transfers.at(piece.transfer());
      failed.Update(source.status());
      if (!source.ok()) continue;
      const buffers::Region from = local ? buffers::Region{ToDims(piece.from().start()), ToDims(piece.from().size())}
                                         : buffers::Region{buffers::Dims(to.size.size(), 0), to.size};
      const buffers::Dims from_dims = local ? shards_[{piece.source_array(), piece.source_shard()}].dims : to.size;
      failed.Update(buffers::CopyDenseRegion(width, reinterpret_cast<const uint8_t*>(source->data()), from_dims, from,
                                             reinterpret_cast<uint8_t*>(data.data()), dims, to));
    }
    shards_[{receive.array(), receive.shard()}] = {receive.dtype(), dims,
                                                   failed.ok() ? absl::StatusOr<std::string>(data) : failed};
    status.Update(failed);
  }
  Done(move.op(), status);
  Poke();
}

void FakeWorker::Poke() {
  for (FakeWorker* worker : hub_->workers) {
    if (worker != this) worker->RunReady();
  }
}

void FakeWorker::Done(uint64_t op, const absl::Status& status, std::optional<double> microseconds) {
  if (op == 0) return;
  auto& done = *held_done_.add_events()->mutable_done();
  if (status.ok()) {
    done.add_ok(op);
  } else {
    auto& failed = *done.add_failed();
    failed.set_op(op);
    session::ToProto(status, failed.mutable_status());
  }
  if (microseconds.has_value() && status.ok()) {
    done.add_timed()->set_op(op);
    done.mutable_timed(0)->set_device_microseconds(*microseconds);
  }
  if (!hold_done) ReleaseDone();
}

void FakeWorker::ReleaseDone() {
  if (held_done_.events_size() > 0) Send(held_done_);
  held_done_.Clear();
}

void FakeWorker::ReleaseCompiled() {
  if (held_compiled_.events_size() > 0) Send(held_compiled_);
  held_compiled_.Clear();
}

void FakeWorker::CallHost(uint64_t call, uint64_t session, uint64_t callback, const std::string& operand) {
  v1::FromWorker message;
  auto& host_call = *message.add_events()->mutable_host_call();
  host_call.set_call(call);
  host_call.set_session(session);
  host_call.set_callback(callback);
  auto& proto = *host_call.add_operands();
  proto.set_dtype(static_cast<int>(buffers::DType::kU8));
  proto.add_dims(operand.size());
  proto.set_bytes(operand.size());
  Send(message, {Bytes::Copy(operand)});
}

}  // namespace pw::controller
