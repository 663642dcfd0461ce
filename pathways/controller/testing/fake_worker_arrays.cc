// Commands that give arrays other names, or bytes another type, and those about files; strings that Python functions make.
#include "absl/strings/str_cat.h"
#include "pathways/buffers/dtype.h"
#include "pathways/controller/testing/fake_worker.h"
#include "pathways/session/wire.h"

namespace pw::controller {

using ::pathways::v1::Command;

void FakeWorker::RunBitcast(const ::pathways::v1::Bitcast& bitcast) {
  absl::Status status;
  for (const Key& key : Inputs([&] {
         Command c;
         *c.mutable_bitcast() = bitcast;
         return c;
       }())) {
    shards_[{bitcast.result(), key.second}] = {
        bitcast.dtype(), {bitcast.dims().begin(), bitcast.dims().end()}, shards_[key].value};
    status.Update(shards_[key].value->status());
  }
  Done(bitcast.op(), status);
}

void FakeWorker::RunAlias(const ::pathways::v1::Alias& alias) {
  absl::Status status;
  for (const auto& item : alias.items()) {
    const absl::StatusOr<std::string> value = Read({item.source_array(), item.source_shard()});
    status.Update(value.status());
    Shard shard;
    if (value.ok()) shard = shards_[{item.source_array(), item.source_shard()}];
    shard.value = value;
    shards_[{item.array(), item.shard()}] = shard;
  }
  Done(alias.op(), status);
}

void FakeWorker::RunFiles(const Command& c) {
  absl::Status status = file_errors[c.kind_case()];
  switch (c.kind_case()) {
    case Command::kSaveTiles:
      for (const auto& tile : c.save_tiles().tiles()) status.Update(Read({c.save_tiles().array(), tile.shard()}).status());
      return Done(c.save_tiles().op(), status);
    case Command::kCommitSave:
      return Done(c.commit_save().op(), status);
    case Command::kDropSave:
      return Done(c.drop_save().op(), status);
    default:
      return RunLoad(c.load_tiles());
  }
}

void FakeWorker::RunLoad(const ::pathways::v1::LoadTiles& load) {
  const absl::Status error = file_errors[Command::kLoadTiles];
  for (const auto& tile : load.tiles()) {
    size_t bytes = static_cast<size_t>(buffers::HostBytes(static_cast<buffers::DType>(load.stored().dtype())));
    for (int64_t size : tile.region().size()) bytes *= static_cast<size_t>(size);
    absl::StatusOr<std::string> value = std::string(bytes, 7);
    if (!error.ok()) value = error;
    const std::vector<int64_t> dims(tile.region().size().begin(), tile.region().size().end());
    for (const auto& p : tile.placements()) shards_[{load.array(), p.shard()}] = {load.stored().dtype(), dims, value};
  }
  Done(load.op(), error);
}

void FakeWorker::SendStrings(const ::pathways::v1::Execute& execute, const absl::Status& status) {
  for (const auto& asked : execute.string_results()) {
    ::pathways::v1::FromWorker message;
    auto& described = *message.add_events()->mutable_described();
    described.set_query(asked.query());
    if (status.ok()) described.set_module(absl::StrCat("strings of shard ", asked.shard()));
    session::ToProto(status, described.mutable_status());
    Send(message);
  }
}

}  // namespace pw::controller
