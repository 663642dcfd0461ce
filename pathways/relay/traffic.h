// Traffic: what differs between the methods that the relay forwards. It watches the frames of one RPC and, when the controller's
// half of it ends badly, decides whether the relay takes the RPC over and what it then says.
//
// Why: the stock client aborts its process when its session ends while jit code needs a layout, and it ends its session itself
// when a HostBufferStore fails. So a session whose controller has gone stays open and answers every request, and what stores or
// deletes host buffers succeeds emptily: the requests that would have used the buffers carry the error to the user.
//
// Invariants:
//   TR-1  an RPC is taken over at most once, and only for a reason that lies with the controller or the way to it
//   TR-2  every request of a taken-over session gets exactly one answer
// All on the relay's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "grpcpp/support/string_ref.h"
#include "pathways/relay/controller_line.h"
#include "pathways/relay/file_upload.h"
#include "pathways/relay/frames.h"

namespace pw::relay {

// The sessions whose controller has gone and whose client is still there.
using GoneSessions = absl::flat_hash_map<uint64_t, absl::Status>;

// The error that the user reads: names the controller's address, what happened, and what to do. Keeps the code of a controller
// that ended the session on purpose; everything that can come from a broken connection is UNAVAILABLE.
absl::Status DescribeLoss(const std::string& controller, const grpc::Status& end);

class Traffic {
 public:
  virtual ~Traffic() = default;

  // False: the controller need not be asked; the RPC is taken over from the start.
  virtual bool AsksController() { return true; }
  // A frame on its way, before it is sent on.
  virtual void Passing(const grpc::ByteBuffer& request) {}
  virtual void Returning(const grpc::ByteBuffer& response) {}
  // The headers of the controller's answer. They come before the first of it.
  using Headers = std::multimap<grpc::string_ref, grpc::string_ref>;
  virtual void Answered(const Headers& headers) {}

  // The controller's half has ended. True: the relay takes over. False: `*end`, possibly reworded, is passed on to the client.
  virtual bool TakesOver(grpc::Status* end) = 0;
  // After a take-over: the frames owed at once, the answers to one more request, and the last frames once the client has
  // finished.
  virtual std::vector<grpc::ByteBuffer> Owed() { return {}; }
  virtual std::vector<grpc::ByteBuffer> AnswersTo(const grpc::ByteBuffer& request) { return {}; }
  virtual std::vector<grpc::ByteBuffer> Last() { return {}; }
};

// The traffic of a call by its method and headers. All arguments but `context` outlive the result.
std::unique_ptr<Traffic> MakeTraffic(const grpc::GenericServerContext& context, const std::string& controller, GoneSessions* gone,
                                     ClientFiles* files, ControllerLine* line);

}  // namespace pw::relay
