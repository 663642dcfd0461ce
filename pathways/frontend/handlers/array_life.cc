// Waiting for arrays, reading and deleting them: check_value_ready, copy_to_host_buffer, check_future, is_array_deleted, delete_array,
// destruct_array.
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/frontend/handlers/results.h"

namespace pw::frontend {
namespace {

using controller::Handle;

Action DecodeCheckValueReady(const IfrtRequest& message) {
  return [arrays = ToHandles(message.check_value_ready_request().value_handles())](ClientSession& session, Reply reply) {
    session.session().WhenReady(arrays, [reply = std::move(reply)](absl::Status status) mutable {
      IfrtResponse response;
      response.mutable_check_value_ready_response();
      std::move(reply).Finish(status, std::move(response));
    });
  };
}

Action DecodeCopyToHostBuffer(const IfrtRequest& message) {
  const auto& request = message.copy_to_host_buffer_request();
  std::optional<buffers::Dims> strides;
  if (request.has_byte_strides())
    strides.emplace(request.byte_strides().strides().begin(), request.byte_strides().strides().end());
  return [array = request.array_handle(), buffer = request.host_buffer_handle(), strides = std::move(strides)](
             ClientSession& session, Reply reply) mutable {
    controller::StatusCallback done = [reply = std::move(reply)](absl::Status status) mutable {
      IfrtResponse response;
      response.mutable_copy_to_host_buffer_response();
      std::move(reply).Finish(status, std::move(response));
    };
    if (session.fetches_ahead().CopyToHostBuffer(session.session(), array, buffer, strides, done)) return;
    session.session().CopyToHostBuffer(array, buffer, std::move(strides), std::move(done));
  };
}

// Before protocol 21, clients also use check_future for the status of an execution.
Action DecodeCheckFuture(const IfrtRequest& message) {
  return [handle = message.check_future_request().future_handle()](ClientSession& session, Reply reply) {
    auto future = session.TakeFuture(handle);
    if (future && future->of_delete) reply.Unnumber();
    auto answer = [reply = std::move(reply)](const absl::Status& status) mutable {
      IfrtResponse response;
      response.mutable_check_future_response();
      std::move(reply).Finish(status, std::move(response));
    };
    if (future) {
      return future->value.OnReady(
          [answer = std::move(answer)](const absl::StatusOr<Unit>& value) mutable { answer(value.status()); });
    }
    session.session().FetchExecuteResult(
        handle, [answer = std::move(answer)](absl::StatusOr<controller::RunResult> result) mutable { answer(result.status()); });
  };
}

Action DecodeIsArrayDeleted(const IfrtRequest& message) {
  return [array = message.is_array_deleted_request().array_handle()](ClientSession& session, Reply reply) {
    absl::StatusOr<bool> deleted = session.session().IsDeleted(array);
    IfrtResponse response;
    response.mutable_is_array_deleted_response()->set_deleted(deleted.value_or(false));
    std::move(reply).Finish(deleted.status(), std::move(response));
  };
}

Action DecodeDeleteArray(const IfrtRequest& message) {
  return [arrays = ToHandles(message.delete_array_request().array_handle())](ClientSession& session, Reply reply) {
    session.fetches_ahead().OnArraysGone(arrays);
    absl::Status status = session.session().Delete(arrays);
    IfrtResponse response;
    const Handle future = session.session().NewHandle();
    session.AddFuture(future, {ReadyFuture(status), /*of_delete=*/true});
    response.mutable_delete_array_response()->set_deletion_future_handle(future);
    std::move(reply).Send(std::move(response));
  };
}

Action DecodeDestructArray(const IfrtRequest& message) {
  return [arrays = ToHandles(message.destruct_array_request().array_handle())](ClientSession& session, Reply reply) {
    session.fetches_ahead().OnArraysGone(arrays);
    IfrtResponse response;
    response.mutable_destruct_array_response();
    std::move(reply).Finish(session.session().Destruct(arrays), std::move(response));
  };
}

constexpr Handler kArrayLifeHandlers[] = {
    {IfrtRequest::kCheckValueReadyRequest, "check_value_ready", DecodeCheckValueReady},
    {IfrtRequest::kCopyToHostBufferRequest, "copy_to_host_buffer", DecodeCopyToHostBuffer},
    {IfrtRequest::kCheckFutureRequest, "check_future", DecodeCheckFuture},
    {IfrtRequest::kIsArrayDeletedRequest, "is_array_deleted", DecodeIsArrayDeleted},
    {IfrtRequest::kDeleteArrayRequest, "delete_array", DecodeDeleteArray, false, false},
    {IfrtRequest::kDestructArrayRequest, "destruct_array", DecodeDestructArray, false, false},
};

}  // namespace

absl::Span<const Handler> ArrayLifeHandlers() { return kArrayLifeHandlers; }

}  // namespace pw::frontend
