#include "pathways/net/tls/https_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/net/sockets/socket.h"
#include "pathways/net/tls/openssl_ptr.h"

namespace pw::net {
namespace {

using ::testing::HasSubstr;

// A certificate for "localhost" that is its own authority.
struct ShownCertificate {
  KeyPtr key{EVP_EC_gen("P-256")};
  CertificatePtr certificate{X509_new()};
  std::string path;

  explicit ShownCertificate(const char* name) : path(absl::StrCat(::testing::TempDir(), "pw_https_", ::getpid(), "_", name)) {
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
    X509_sign(certificate.get(), key.get(), EVP_sha256());
    const BioPtr file(BIO_new_file(path.c_str(), "w"));
    PEM_write_bio_X509(file.get(), certificate.get());
  }
};

// Answers one request at a port of this machine, and closes without TLS's goodbye, as many servers do.
class HttpsServer {
 public:
  explicit HttpsServer(const ShownCertificate& shown, std::string answer)
      : context_(SSL_CTX_new(TLS_server_method())),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        answer_(std::move(answer)) {
    SSL_CTX_use_certificate(context_.get(), shown.certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), shown.key.get());
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~HttpsServer() { thread_.join(); }

  std::string url(const std::string& path = "/keys") const { return absl::StrCat("https://localhost:", port_, path); }
  const std::string& request() const { return request_; }

 private:
  void Serve() {
    sigset_t pipe;  // of this thread alone: the client under test takes care of itself
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    pollfd waits = {listener_.get(), POLLIN, 0};
    if (::poll(&waits, 1, 10'000) != 1) return;
    const Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const SslPtr ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), connection.get());
    char request[1024];
    int size = 0;
    if (SSL_accept(ssl.get()) == 1) size = SSL_read(ssl.get(), request, sizeof(request));
    if (size > 0) {
      request_.assign(request, static_cast<size_t>(size));
      SSL_write(ssl.get(), answer_.data(), static_cast<int>(answer_.size()));
    }
    ERR_clear_error();
    if (answer_.empty()) SSL_read(ssl.get(), request, sizeof(request));  // until the client gives up
    ERR_clear_error();
  }

  const SslContextPtr context_;
  const Fd listener_;
  const std::string answer_;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

std::string Answer(const std::string& body, const std::string& head = "HTTP/1.1 200 OK") {
  return absl::StrCat(head, "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}

class HttpsGetTest : public ::testing::Test {
 protected:
  const ShownCertificate localhost_{"localhost"};

  absl::StatusOr<std::string> Get(const std::string& answer, HttpsOptions options = {}) {
    options.authorities = localhost_.path;
    const HttpsServer server(localhost_, answer);
    return HttpsGet(server.url(), options);
  }
  std::string WhyNot(const std::string& answer, const HttpsOptions& options = {}) {
    const absl::StatusOr<std::string> got = Get(answer, options);
    EXPECT_FALSE(got.ok());
    return std::string(got.status().message());
  }
};

TEST_F(HttpsGetTest, ADocumentIsRead) {
  std::string request;
  {
    HttpsServer server(localhost_, Answer("{}"));
    EXPECT_EQ(*HttpsGet(server.url("/a/b?c=d"), {.authorities = localhost_.path}), "{}");
    request = server.request();
  }
  EXPECT_THAT(request, ::testing::StartsWith("GET /a/b?c=d HTTP/1.0\r\nHost: localhost"));
  EXPECT_EQ(*Get(Answer(std::string(100'000, 'x'))), std::string(100'000, 'x'));
}

TEST_F(HttpsGetTest, ACertificateOfAnotherNameOrAuthorityIsRefused) {
  const ShownCertificate other("elsewhere"), same("localhost");
  for (const ShownCertificate* shown : {&other, &same}) {
    const std::string trusted = shown == &other ? other.path : ShownCertificate("third").path;
    const HttpsServer server(*shown, Answer("{}"));
    EXPECT_THAT(HttpsGet(server.url(), {.authorities = trusted}).status().message(), HasSubstr("certificate is not trusted"));
  }
}

TEST_F(HttpsGetTest, WhatIsNoWholeAnswerIsRefused) {
  const std::string whole = Answer("{\"keys\": []}");
  EXPECT_THAT(WhyNot(whole.substr(0, whole.size() - 1)), HasSubstr("reading"));
  EXPECT_THAT(WhyNot("HTTP/1.0 200 OK\r\n\r\n{}"), HasSubstr("reading")) << "cut, as far as anybody can tell";
  EXPECT_THAT(WhyNot(Answer("no", "HTTP/1.1 404 Not Found")), HasSubstr("404"));
  EXPECT_THAT(WhyNot(Answer("", "HTTP/1.1 302 Found\r\nLocation: https://elsewhere/")), HasSubstr("302"));
  EXPECT_THAT(WhyNot(Answer(std::string(2000, 'x')), {.most_bytes = 1000}), HasSubstr("more than 1000 bytes"));
  EXPECT_THAT(WhyNot(Answer("{}", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked")), HasSubstr("chunks"));
}

TEST_F(HttpsGetTest, ASilentServerIsGivenUp) {
  EXPECT_THAT(WhyNot("", {.limit = absl::Milliseconds(300)}), HasSubstr("in time"));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd read(ends[0]), write(ends[1]);
  ASSERT_EQ(::write(write.get(), "x", 1), 1);
  EXPECT_THAT(WhyNot("", {.stop = read.get()}), HasSubstr("this process ends"));
}

TEST(HttpsGetUrlTest, OtherAddressesAreRefused) {
  for (const char* url : {"", "http://a/", "https://", "https:///a", "https://a:0/", "https://a:99999/", "https://user@a/",
                          "https://a/ b", "https://a/\r\nX: y"})
    EXPECT_TRUE(absl::IsInvalidArgument(HttpsGet(url, {}).status())) << url;
}

}  // namespace
}  // namespace pw::net
