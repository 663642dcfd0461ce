#include "pathways/frontend/grpc_util.h"

namespace pw::frontend {

grpc::ByteBuffer EmptyMessage() {
  grpc::Slice slice;
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace pw::frontend
