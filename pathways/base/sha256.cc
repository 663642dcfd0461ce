#include "pathways/base/sha256.h"

#include <openssl/sha.h>

namespace pw {

std::string Sha256(std::string_view data) {
  std::string digest(SHA256_DIGEST_LENGTH, 0);
  SHA256(reinterpret_cast<const unsigned char*>(data.data()), data.size(), reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace pw
