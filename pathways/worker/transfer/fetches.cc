#include "pathways/worker/transfer/fetches.h"

#include <algorithm>
#include <utility>

#include "pathways/buffers/array_spec.h"
#include "pathways/buffers/byte_strides.h"
#include "pathways/net/shared/shared_copy.h"
#include "pathways/net/shared/shared_memory.h"
#include "pathways/worker/transfer/host_copies.h"
#include "pathways/worker/transfer/host_views.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;
constexpr size_t kFetchInlineBytes = 64 << 10;
constexpr size_t kFetchChunkBytes = 1 << 20;
constexpr int64_t kRestridedHere = 256 << 10;  // arrays up to this size take less time than the way to another thread and back
}  // namespace

void Fetches::Fetch(const v1::Fetch& command) {
  auto request = std::make_shared<Request>();
  request->fetch = command.fetch();
  request->shard = arrays_->store().FindOrFailed(ArrayId(command.array()), command.shard());
  request->session = command.lane_fetch() != 0 ? SessionId(command.session()) : request->shard->session();
  request->lane_fetch = command.lane_fetch();
  request->lane_above = std::min<uint64_t>(command.lane_above(), kFetchInlineBytes);
  if (command.has_byte_strides()) request->byte_strides.emplace(command.byte_strides().begin(), command.byte_strides().end());
  request->task = std::make_shared<Hazards::Task>();
  request->task->reads = {request->shard};
  request->task->run = [this, request](const absl::Status& input) { return Start(request, input); };
  arrays_->hazards().Submit(request->task);
}

Hazards::Outcome Fetches::Start(const RequestRef& request, const absl::Status& input) {
  if (request->answered) return Hazards::Outcome::kDone;
  if (!input.ok()) {
    Answer(request, input);
    return Hazards::Outcome::kDone;
  }
  device::DeviceBuffer* buffer = request->shard->buffer();
  absl::StatusOr<int64_t> bytes = buffers::DenseBytes(buffer->dtype(), buffer->dims());
  const int width = buffers::HostBytes(buffer->dtype());
  if (request->byte_strides.has_value() && buffers::IsDense(width, buffer->dims(), *request->byte_strides)) {
    request->byte_strides.reset();
  }
  if (bytes.ok() && request->byte_strides.has_value()) {
    bytes = buffers::BytesToRead(width, buffer->dims(), *request->byte_strides);
  }
  if (!bytes.ok()) {
    Answer(request, bytes.status());
    return Hazards::Outcome::kDone;
  }
  in_memory_ -= std::exchange(request->bytes, 0);  // of a first try
  request->charge = nullptr;
  if (absl::Status status = quota_->Check(request->session, *bytes); !status.ok()) {
    Answer(request, status);
    return Hazards::Outcome::kDone;
  }
  if ((in_memory_ > 0 && *bytes > limit_bytes_ - in_memory_) ||
      !quota_->HasRoom(HostQuota::Way::kOut, request->session, *bytes)) {
    arrays_->hazards().Hold(request->task);
    waiting_.push_back(request->task);
    arrays_->memory().Begin();  // consumers of the shard wait for this
    return Hazards::Outcome::kWait;
  }
  request->bytes = *bytes;
  request->dtype = buffer->dtype();
  request->dims = buffer->dims();
  in_memory_ += request->bytes;
  request->charge = quota_->Take(HostQuota::Way::kOut, request->session, request->bytes);
  if (StartCopy(request)) return Hazards::Outcome::kWait;
  // The request keeps the shard until the copy has ended: if the copy fails, the shard's own error is the reason to give.
  Future<Bytes> copy = SharesMemory(*request)
                           ? ToSharedHost(&host_memory_->shared(), request->session, buffer, static_cast<size_t>(*bytes))
                           : buffer->ToHost();
  const int device = request->shard->device();
  arrays_->AwaitWork(request->session, {&device, 1}, copy,
                     [this, request](const absl::StatusOr<Bytes>& bytes) { Answer(request, bytes); });
  return Hazards::Outcome::kDone;
}

// Returns whether the receiver, a client or the controller, can open the copy as shared memory.
bool Fetches::SharesMemory(const Request& request) const {
  if (request.byte_strides.has_value()) return false;
  return request.lane_fetch != 0 ? lanes_->SharesMemory(request.session) : host_memory_->shares();
}

// Copies the shard straight from the device's memory to shared memory, if the host can read that memory. This saves the page
// faults of writing to fresh memory. The request stays a reader of the shard meanwhile, so no launch takes the buffer over.
bool Fetches::StartCopy(const RequestRef& request) {
  if (host_memory_->copy_pool() == nullptr || request->view_tried || !SharesMemory(*request) ||
      static_cast<size_t>(request->bytes) < net::SharedMemoryFactory::kWorthwhileBytes) {
    return false;
  }
  request->view_tried = true;
  ReadInPlace(context_, arrays_, request->task, request->shard, [this, request](absl::StatusOr<Bytes> view) {
    if (view.ok()) CopyView(request, *std::move(view));
  });
  return true;
}

void Fetches::CopyView(const RequestRef& request, Bytes view) {
  absl::StatusOr<net::SharedMemory> memory =
      host_memory_->shared().Create(static_cast<size_t>(request->bytes), request->session.v);
  if (!memory.ok()) return;  // Start goes the ordinary way
  net::SharedCopyOn(
      host_memory_->copy_pool(), *std::move(memory), std::move(view),
      [this, request, strand = context_->strand(), alive = context_->alive()](absl::StatusOr<Bytes> bytes) mutable {
        // Destroys `request` on the strand, even if the worker is gone.
        strand->Post([this, request = std::move(request), bytes = std::move(bytes), alive = std::move(alive)]() mutable {
          if (!alive.expired()) Copied(request, std::move(bytes));
        });
      });
}

void Fetches::Copied(const RequestRef& request, absl::StatusOr<Bytes> bytes) {
  request->answered = true;  // set first: the end of the reading runs the task again
  Answer(request, std::move(bytes));
}

void Fetches::Answer(const RequestRef& request, absl::StatusOr<Bytes> bytes) {
  request->task = nullptr;
  if (bytes.ok() && request->byte_strides.has_value()) return Restride(request, *std::move(bytes));
  Give(request, std::move(bytes));
}

// Lays the elements out with the request's strides.
void Fetches::Restride(const RequestRef& request, Bytes dense) {
  auto restrided = [](const Request& of, Bytes elements) {
    return buffers::Stridify(std::move(elements), buffers::HostBytes(of.dtype), of.dims, *of.byte_strides, of.bytes);
  };
  if (host_memory_->copy_pool() == nullptr || request->bytes <= kRestridedHere)
    return Give(request, restrided(*request, std::move(dense)));
  host_memory_->copy_pool()->Post([this, restrided, request = request, dense = std::move(dense), strand = context_->strand(),
                                   alive = context_->alive()]() mutable {
    absl::StatusOr<Bytes> bytes = restrided(*request, std::move(dense));
    // Destroys `request` on the strand, even if the worker is gone.
    strand->Post([this, request = std::move(request), bytes = std::move(bytes), alive = std::move(alive)]() mutable {
      if (!alive.expired()) Give(request, std::move(bytes));
    });
  });
}

void Fetches::Give(const RequestRef& request, absl::StatusOr<Bytes> bytes) {
  if (!bytes.ok()) {
    Freed(request->bytes, std::move(request->charge));
    // If the shard is failing, its own error is the reason to give. It may be known only a little later.
    request->shard->OnSettled([this, fetch = request->fetch, shard = request->shard.get(), error = bytes.status()] {
      Fail(fetch, shard->failed() ? shard->error() : error);
    });
    return;
  }
  if (context_->ended(request->session)) return Freed(request->bytes, std::move(request->charge));
  if (request->lane_fetch != 0 && bytes->size() > request->lane_above) return SendOnLane(request, *std::move(bytes));
  if (host_memory_->shares() && net::NameOf(*bytes).has_value()) return Lend(request, *bytes);
  const bool is_inline = bytes->size() <= kFetchInlineBytes;
  std::vector<Bytes> payload;
  if (is_inline) payload.push_back(*bytes);
  v1::Event* const event = context_->outbox().Add(std::move(payload));
  v1::Fetched* const fetched = event->mutable_fetched();
  fetched->set_fetch(request->fetch);
  fetched->set_total_bytes(bytes->size());
  fetched->set_payload_bytes(is_inline ? bytes->size() : 0);
  if (is_inline) {
    context_->had().Keep(HadCommands::Kind::kFetch, request->fetch, *event, *bytes);
    return Freed(request->bytes, std::move(request->charge));
  }
  context_->had().Forget(HadCommands::Kind::kFetch, request->fetch);
  sending_.push_back({request->fetch, request->session, *std::move(bytes), std::move(request->charge)});
  Pump();
}

void Fetches::SendOnLane(const RequestRef& request, Bytes bytes) {
  v1::Event* const event = context_->outbox().Add();
  v1::Fetched* const fetched = event->mutable_fetched();
  fetched->set_fetch(request->fetch);
  fetched->set_total_bytes(bytes.size());
  fetched->set_on_lane(true);
  context_->had().Keep(HadCommands::Kind::kFetch, request->fetch, *event);
  lanes_->Send(request->session, request->lane_fetch, std::move(bytes),
               [this, size = request->bytes, charge = std::move(request->charge)]() mutable { Freed(size, std::move(charge)); });
}

void Fetches::Lend(const RequestRef& request, const Bytes& bytes) {
  v1::Fetched* fetched = context_->outbox().Add()->mutable_fetched();
  fetched->set_fetch(request->fetch);
  fetched->set_total_bytes(bytes.size());
  net::WriteName(*net::NameOf(bytes), fetched->mutable_shared());
  context_->had().Forget(HadCommands::Kind::kFetch, request->fetch);
  loans_.Add(request->fetch, request->session, bytes,
             [this, size = request->bytes, charge = std::move(request->charge)]() mutable { Freed(size, std::move(charge)); });
}

void Fetches::Taken(const v1::SharedTaken& command) {
  for (uint64_t fetch : command.transfers()) loans_.Return(fetch);
}

void Fetches::Fail(uint64_t fetch, const absl::Status& status) {
  v1::Event* const event = context_->outbox().Add();
  event->mutable_fetched()->set_fetch(fetch);
  *event->mutable_fetched()->mutable_status() = ToProto(status);
  context_->had().Keep(HadCommands::Kind::kFetch, fetch, *event);
}

void Fetches::Pump() {
  int64_t freed = 0;
  while (!sending_.empty() && context_->outbox().CanSendBulk()) {
    Sending& next = sending_.front();
    const size_t size = std::min(kFetchChunkBytes, next.data.size() - next.sent);
    context_->outbox().SendChunk(next.fetch, next.sent, next.data.size(), next.data.Slice(next.sent, size));
    next.sent += size;
    if (next.sent < next.data.size()) continue;
    freed += static_cast<int64_t>(next.data.size());
    sending_.pop_front();
  }
  if (freed > 0) Freed(freed);
}

void Fetches::Freed(int64_t bytes, HostQuota::Charge charge) {
  charge = nullptr;
  in_memory_ -= bytes;
  std::deque<Hazards::TaskRef> now;
  now.swap(waiting_);
  for (Hazards::TaskRef& task : now) {
    arrays_->hazards().Release(task);
    arrays_->memory().End();
  }
}

void Fetches::ReleaseOwner(SessionId session) {
  int64_t freed = static_cast<int64_t>(loans_.bytes_of(session));
  loans_.DropSession(session);
  for (auto it = sending_.begin(); it != sending_.end();) {
    if (it->session != session) {
      ++it;
      continue;
    }
    freed += static_cast<int64_t>(it->data.size());
    it = sending_.erase(it);
  }
  Freed(freed);
}

}  // namespace pw::worker
