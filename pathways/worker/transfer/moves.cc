#include "pathways/worker/transfer/moves.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/unreachable_host.h"
#include "pathways/program/program.h"
#include "pathways/program/repeated_moves.h"
#include "pathways/worker/transfer/moves_operation.h"
#include "pathways/worker/transfer/placement.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;
bool IsWhole(const Dims& dims, const Dims& start, const Dims& size) { return size == dims && start == Dims(dims.size(), 0); }

}  // namespace

// A new shard in progress.
struct Moves::Assembly {
  ShardRef shard;
  std::string memory_kind;
  buffers::DType dtype = buffers::DType::kInvalid;
  Dims dims;
  int64_t total_bytes = 0;
  struct Piece {
    Dims to_start;
    Dims size;
    Dims from_start;  // of a local source
    int64_t bytes = 0;
  };
  std::vector<Piece> pieces;
  size_t left = 0;
  absl::Status status;
  std::optional<AlignedBytes> memory;
  Bytes whole;  // instead of `memory` if one piece is the whole shard
  HostQuota::Charge charge = nullptr;  // for either of them

  bool Holds(const Bytes& bytes) const {
    if (!memory.has_value()) return false;
    const uint8_t* const begin = memory->memory().get();
    return bytes.data() >= begin && bytes.data() < begin + memory->size();
  }
};

void Moves::Move(const v1::Move& command) {
  auto operation =
      std::make_shared<Operation>(Operation{context_, command.op(), SessionId(command.session()), command.location()});
  if (context_->recorder().on()) operation->begun = context_->recorder().Now();
  // Sends first: a new shard may take the name of a shard to send.
  program::ForEachSend(command, [&](const v1::Move::Send& send) { Send(operation, send); });
  program::ForEachReceive(command, [&](const v1::Move::Receive& receive) { Receive(operation, receive); });
  operation->Settled(absl::OkStatus());
}

Future<Bytes> Moves::HostCopy(const OperationRef& operation, const ShardRef& shard) {
  Future<Bytes>& copy = operation->copies[shard.get()];
  if (!copy.valid()) copy = shard->buffer()->ToHost();
  return copy;
}

// ---- receives

absl::Status Moves::Check(const v1::Move::Receive& receive, Assembly* assembly) const {
  PW_ASSIGN_OR_RETURN(assembly->dtype, buffers::DTypeFromNumber(receive.dtype()));
  assembly->dims = ToDims(receive.dims());
  assembly->memory_kind = receive.memory_kind();
  PW_ASSIGN_OR_RETURN(assembly->total_bytes, buffers::DenseBytes(assembly->dtype, assembly->dims));
  const int width = buffers::HostBytes(assembly->dtype);
  int64_t covered = 0;
  for (const v1::Move::Receive::Piece& piece : receive.pieces()) {
    Assembly::Piece p{ToDims(piece.to().start()), ToDims(piece.to().size()), ToDims(piece.from().start()), 0};
    if (!buffers::Contains(assembly->dims, p.to_start, p.size))
      return absl::InvalidArgumentError("a piece of a new shard lies outside it");
    PW_ASSIGN_OR_RETURN(const int64_t elements, buffers::NumElements(p.size));
    p.bytes = elements * width;
    if (p.bytes > assembly->total_bytes - covered) return absl::InvalidArgumentError("the pieces of a new shard overlap");
    covered += p.bytes;
    assembly->pieces.push_back(std::move(p));
  }
  if (covered != assembly->total_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pieces of a new shard have ", covered, " bytes, the shard ", assembly->total_bytes));
  }
  return absl::OkStatus();
}

void Moves::Receive(const OperationRef& operation, const v1::Move::Receive& receive) {
  ++operation->left;
  const int devices = static_cast<int>(arrays_->runtime()->devices().size());
  auto assembly = std::make_shared<Assembly>();
  absl::Status status = Check(receive, assembly.get());
  if (receive.local_device() < 0 || receive.local_device() >= devices) {
    status = absl::InvalidArgumentError(
        absl::StrCat("there is no local device ", receive.local_device(), "; this host has ", devices));
  }
  if (!status.ok()) {
    arrays_->store().Bind(ArrayId(receive.array()), receive.shard(), Shard::Failed(status), operation->session);
    return operation->Settled(status);
  }
  assembly->shard = arrays_->NewShard(receive.local_device(), operation->session);
  if (!CopyWhole(operation, receive, assembly)) Assemble(operation, receive, assembly);
  arrays_->store().Bind(ArrayId(receive.array()), receive.shard(), assembly->shard, operation->session);
}

// If the piece is exactly one local shard, the runtime copies it from device to device.
bool Moves::CopyWhole(const OperationRef& operation, const v1::Move::Receive& receive, const AssemblyRef& assembly) {
  if (receive.pieces_size() != 1 || HostId(receive.pieces(0).from_host()) != context_->self()) return false;
  const v1::Move::Receive::Piece& piece = receive.pieces(0);
  if (!IsWhole(assembly->dims, assembly->pieces[0].to_start, assembly->pieces[0].size)) return false;
  ShardRef source = arrays_->store().FindOrFailed(ArrayId(piece.source_array()), piece.source_shard());
  auto task = std::make_shared<Hazards::Task>();
  task->reads = {source};
  std::weak_ptr<Hazards::Task> weak = task;
  task->run = [this, operation, assembly, source, weak](const absl::Status& input) {
    auto finish = [operation, assembly](const absl::Status& status) {
      if (status.ok())
        assembly->shard->SetReady();
      else
        assembly->shard->SetFailed(status);
      operation->Settled(status);
    };
    if (!input.ok()) {
      finish(input);
      return Hazards::Outcome::kDone;
    }
    device::DeviceBuffer* from = source->buffer();
    if (from->dims() != assembly->dims || from->dtype() != assembly->dtype) {  // a part of a larger shard
      AddLocal(operation, assembly, 0, source);
      return Hazards::Outcome::kDone;
    }
    const int64_t bytes = DeviceBytes(assembly->dtype, assembly->dims);
    const MemoryGate::Need need{assembly->shard->device(), bytes};
    absl::Status why;
    switch (arrays_->memory().Admit({{&need, 1}, operation->session}, weak.lock(), &why)) {
      case MemoryGate::Verdict::kWait:
        return Hazards::Outcome::kWait;
      case MemoryGate::Verdict::kNever:
        finish(why);
        return Hazards::Outcome::kDone;
      case MemoryGate::Verdict::kRoom:
        break;
    }
    absl::StatusOr<std::unique_ptr<device::DeviceBuffer>> copy = from->CopyTo(assembly->shard->device(), assembly->memory_kind);
    if (!copy.ok()) {  // some runtimes refuse copies within one memory
      AddLocal(operation, assembly, 0, source);
      return Hazards::Outcome::kDone;
    }
    const Future<Unit> ready = (*copy)->Ready();
    assembly->shard->SetLive(*std::move(copy), bytes);
    const int devices[] = {source->device(), assembly->shard->device()};
    arrays_->AwaitWork(operation->session, devices, ready, [finish, source](const absl::StatusOr<Unit>& done) {
      if (done.ok()) return finish(absl::OkStatus());
      WhyFailed(source, done.status(), finish);
    });
    return Hazards::Outcome::kDone;
  };
  assembly->left = 1;
  arrays_->hazards().Submit(std::move(task));
  return true;
}

void Moves::Assemble(const OperationRef& operation, const v1::Move::Receive& receive, const AssemblyRef& assembly) {
  assembly->left = assembly->pieces.size() + 1;  // one for this function
  for (int i = 0; i < receive.pieces_size(); ++i) {
    const v1::Move::Receive::Piece& piece = receive.pieces(i);
    const HostId from(piece.from_host());
    const size_t index = static_cast<size_t>(i);
    if (from == context_->self()) {
      ShardRef source = arrays_->store().FindOrFailed(ArrayId(piece.source_array()), piece.source_shard());
      auto task = std::make_shared<Hazards::Task>();
      task->reads = {source};
      task->run = [this, operation, assembly, index, source](const absl::Status& input) {
        if (input.ok())
          AddLocal(operation, assembly, index, source);
        else
          AddPiece(operation, assembly, index, input, {}, {});
        return Hazards::Outcome::kDone;
      };
      arrays_->hazards().Submit(std::move(task));
      continue;
    }
    ExpectPiece(operation, assembly, index, piece.transfer(), from);
    if (!transfers_->Knows(from))
      staging_.FailSource(from, UnreachableHostError(from, absl::StrCat(context_->NameOf(from), " is not in the cluster")));
  }
  if (--assembly->left == 0) Finish(operation, assembly);
}

void Moves::ExpectPiece(const OperationRef& operation, const AssemblyRef& assembly, size_t index, uint64_t transfer,
                        HostId from) {
  arrays_->memory().Begin();
  const auto bytes = assembly->pieces[index].bytes;
  uint8_t* const into = FinalPlace(assembly.get(), index, transfers_->TakesShared(from) || host_memory_->peers_in_process());
  if (into != nullptr)
    transfers_->receive_buffers()->Expect(transfer, {assembly->memory->owner(), into}, static_cast<size_t>(bytes));
  staging_.Expect(
      transfer, bytes, operation->session, from,
      [this, operation, assembly, index, transfer](absl::StatusOr<Bytes> arrived) {
        transfers_->receive_buffers()->Withdraw(transfer);
        arrays_->memory().End();
        operation->bytes += arrived.ok() ? static_cast<int64_t>(arrived->size()) : 0;
        const Dims& size = assembly->pieces[index].size;
        // UNAVAILABLE: the host is gone. Other errors come from the source and say where they began.
        if (absl::IsUnavailable(arrived.status())) arrived = program::WithLocation(arrived.status(), operation->location);
        AddPiece(operation, assembly, index, arrived, size, Dims(size.size(), 0));
      },
      into);
}

// Returns null, and fails the assembly, if the machine has no memory for the whole shard.
uint8_t* Moves::Memory(Assembly* assembly) {
  if (!assembly->memory.has_value() && assembly->status.ok()) {
    assembly->charge = quota_->Take(HostQuota::Way::kBetween, assembly->shard->session(), assembly->total_bytes);
    assembly->memory = host_memory_->blocks().Take(static_cast<size_t>(assembly->total_bytes));
    if (!assembly->memory.has_value()) {
      assembly->status = absl::ResourceExhaustedError(absl::StrCat("the machine of ", context_->NameOf(context_->self()),
                                                                   " has no memory for a shard of ",
                                                                   HumanBytes(assembly->total_bytes), ". Use more devices"));
    }
  }
  return assembly->memory.has_value() ? assembly->memory->data() : nullptr;
}

// Returns the place of a piece's bytes in the new shard, if they are contiguous there. Returns null if not, or if the bytes arrive in
// memory that can become the shard's: all of them in shared memory, or handed over within the process.
uint8_t* Moves::FinalPlace(Assembly* assembly, size_t index, bool comes_shared) {
  const Assembly::Piece& piece = assembly->pieces[index];
  if (piece.bytes == 0 || (piece.bytes == assembly->total_bytes && comes_shared)) return nullptr;
  const std::optional<int64_t> at = buffers::ContiguousStart(assembly->dims, piece.to_start, piece.size);
  uint8_t* const memory = at.has_value() ? Memory(assembly) : nullptr;
  return memory == nullptr ? nullptr : memory + *at * buffers::HostBytes(assembly->dtype);
}

void Moves::AddLocal(const OperationRef& operation, const AssemblyRef& assembly, size_t piece, const ShardRef& source) {
  const Dims dims = source->buffer()->dims();
  const Dims start = assembly->pieces[piece].from_start;
  if (source->buffer()->dtype() != assembly->dtype || !buffers::Contains(dims, start, assembly->pieces[piece].size)) {
    return AddPiece(operation, assembly, piece,
                    absl::InvalidArgumentError("a piece of a new shard does not lie inside its source"), {}, {});
  }
  const int device = source->device();
  arrays_->AwaitWork(operation->session, {&device, 1}, HostCopy(operation, source),
                     [this, operation, assembly, piece, source, dims, start](const absl::StatusOr<Bytes>& bytes) {
                       if (bytes.ok()) return AddPiece(operation, assembly, piece, bytes, dims, start);
                       WhyFailed(source, bytes.status(), [this, operation, assembly, piece](const absl::Status& error) {
                         AddPiece(operation, assembly, piece, error, {}, {});
                       });
                     });
}

void Moves::AddPiece(const OperationRef& operation, const AssemblyRef& assembly, size_t index, const absl::StatusOr<Bytes>& bytes,
                     const Dims& dims, const Dims& start) {
  const Assembly::Piece& piece = assembly->pieces[index];
  if (!bytes.ok()) {
    if (assembly->status.ok()) assembly->status = bytes.status();
  } else if (piece.bytes == 0 || assembly->Holds(*bytes)) {
    // The piece is already in place.
  } else if (piece.bytes == assembly->total_bytes && static_cast<int64_t>(bytes->size()) == piece.bytes) {
    assembly->whole = *bytes;
  } else if (uint8_t* const memory = Memory(assembly.get()); memory != nullptr) {
    buffers::CopyDenseBox(buffers::HostBytes(assembly->dtype), piece.size, bytes->data(), dims, start, memory, assembly->dims,
                          piece.to_start);
  }
  if (--assembly->left == 0) Finish(operation, assembly);
}

void Moves::Finish(const OperationRef& operation, const AssemblyRef& assembly) {
  if (!assembly->status.ok()) {
    assembly->shard->SetFailed(assembly->status);
    return operation->Settled(assembly->status);
  }
  Bytes data = std::move(assembly->whole);
  const bool own = data.empty() && assembly->memory.has_value();
  if (own) data = std::move(*assembly->memory).Freeze();
  assembly->memory.reset();
  HostQuota::Charge charge = std::move(assembly->charge);
  if (charge == nullptr) charge = quota_->Take(HostQuota::Way::kBetween, operation->session, assembly->total_bytes);
  Place(arrays_, assembly->shard, {std::move(data), assembly->dtype, assembly->dims, std::nullopt, own}, assembly->memory_kind,
        [operation, charge = std::move(charge)](const absl::Status& status) { operation->Settled(status); });
}

// ---- peers

void Moves::OnChunk(HostId from, const v1::Chunk& chunk, Bytes payload) { staging_.AddChunk(chunk, std::move(payload), from); }

void Moves::OnTransferFailed(HostId from, uint64_t transfer, const absl::Status& status) { staging_.Fail(transfer, status); }

void Moves::OnPeerLost(HostId host, const absl::Status& status) { staging_.FailSource(host, status); }

void Moves::ReleaseOwner(SessionId session) {
  staging_.ReleaseOwner(session, absl::CancelledError("the client has gone, and with it the rest of this transfer"));
}

}  // namespace pw::worker
