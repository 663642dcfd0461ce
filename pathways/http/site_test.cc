#include "pathways/http/site.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pathways/base/testing/manual_world.h"

namespace pw::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kOperator[] = "pw-01234567-operator";
const std::string kSecret(64, 'f');

class SiteTest : public testing::Test {
 protected:
  SiteTest() {
    Site::Options options;
    options.hosts = {"Head.example"};
    options.secret = kSecret;
    options.make_key = [this] { return std::string(31, 'k') + static_cast<char>(++made); };
    options.admit = [](const std::string& token, auto done) { std::move(done)(token == kOperator); };
    options.sources["status"] = [this](const std::string& query, auto done) {
      ++asked;
      std::move(done)(absl::StrCat("{\"query\":\"", query, "\"}"));
    };
    options.sources["broken"] = [](const std::string&, auto done) { std::move(done)(absl::UnavailableError("no hosts")); };
    site = Site::Create(std::move(options), StaticFiles({{"/index.html", {"text/html", "<p>"}}}), &queue, &clock);
  }
  ~SiteTest() override { queue.RunUntilIdle(); }

  Response Get(const std::string& path, const std::string& shown = "", const std::string& host = "127.0.0.1:9500",
               const std::string& query = "") {
    std::optional<Response> got;
    site->Answer({"GET", path, query, host, shown.empty() ? "" : "Bearer " + shown},
                 [&](Response response) { got = std::move(response); });
    queue.RunUntilIdle();
    return got.value_or(Response{.status = 0});
  }
  // Returns the value in {"key":"value"}; empty for any other answer.
  static std::string Value(const Response& response) {
    if (response.status != 200) return "";
    const size_t colon = response.body.find(":\"");
    return response.body.substr(colon + 2, response.body.size() - colon - 4);
  }
  std::string Session() { return Value(Get("/api/login", kSecret)); }

  int made = 0;
  int asked = 0;
  ManualExecutor queue;
  ManualClock clock;
  std::shared_ptr<Site> site;
};

TEST_F(SiteTest, TheFilesAreForEverybody) {
  EXPECT_EQ(Get("/").body, "<p>");
  EXPECT_EQ(Get("/nothing").status, 404);
}

TEST_F(SiteTest, AnswersAreForThoseWhoHaveLoggedIn) {
  for (const std::string& shown : {std::string(), std::string("wrong"), std::string(kOperator), kSecret + "f"})
    EXPECT_EQ(Get("/api/status", shown).status, 401) << shown;
  EXPECT_EQ(asked, 0);
  const std::string session = Session();
  EXPECT_EQ(Get("/api/status", session, "localhost:1", "a=1").body, "{\"query\":\"a=1\"}");
  EXPECT_EQ(Get("/api/status", kSecret).status, 200);
  EXPECT_EQ(Get("/api/nothing", session).status, 404);
  EXPECT_EQ(Get("/api/nothing").status, 401);
  EXPECT_EQ(Get("/api/broken", session).status, 503);
}

TEST_F(SiteTest, ATicketLogsInOnce) {
  const std::string ticket = Value(Get("/api/ticket", kSecret));
  const std::string session = Value(Get("/api/login", ticket));
  EXPECT_EQ(Get("/api/status", session).status, 200);
  EXPECT_EQ(Get("/api/login", ticket).status, 401);
  EXPECT_EQ(Get("/api/status", ticket).status, 401);
  EXPECT_EQ(Get("/api/ticket", session).status, 401) << "who reads the page cannot let others in";
}

TEST_F(SiteTest, AnOperatorsTokenLogsInAndOthersDoNot) {
  EXPECT_EQ(Get("/api/status", Value(Get("/api/login", kOperator))).status, 200);
  EXPECT_EQ(Get("/api/login", "pw-01234567-user").status, 401);
  EXPECT_EQ(Get("/api/login").status, 401);
  EXPECT_EQ(Get("/api/ticket", "pw-01234567-user").status, 401);
}

TEST_F(SiteTest, WhoLogsOutIsOut) {
  const std::string session = Session();
  EXPECT_EQ(Get("/api/logout", session).status, 200);
  EXPECT_EQ(Get("/api/status", session).status, 401);
}

TEST_F(SiteTest, OtherNamesOfThisMachineAreRefused) {
  const std::string session = Session();
  for (const char* host :
       {"evil.example", "evil.example:9500", "127.0.0.1.evil.example", "", "[::2]:9500", "localhost.evil:80"}) {
    EXPECT_EQ(Get("/api/status", session, host).status, 421) << host;
    EXPECT_EQ(Get("/", "", host).status, 421) << host;
  }
  for (const char* host : {"localhost", "LOCALHOST:9500", "127.0.0.1", "[::1]:9500", "[::1]", "head.example:80"})
    EXPECT_EQ(Get("/api/status", session, host).status, 200) << host;
}

TEST_F(SiteTest, EveryAnswerForbidsScriptsOfOthers) {
  for (const char* path : {"/", "/nothing", "/api/status", "/api/login"}) {
    std::string headers;
    for (const auto& [name, value] : Get(path).headers) absl::StrAppend(&headers, name, ": ", value, "\n");
    EXPECT_THAT(headers, HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self';"));
    EXPECT_THAT(headers, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(headers, Not(HasSubstr("unsafe-inline")));
    EXPECT_THAT(headers, Not(HasSubstr("Access-Control")));
  }
}

TEST(NumberIn, ReadsAParameter) {
  EXPECT_EQ(NumberIn("after=17&x=2", "after", 3), 17u);
  EXPECT_EQ(NumberIn("x=2&after=17", "after", 3), 17u);
  for (const char* query : {"", "after", "after=", "after=-1", "after=1x", "before=1", "after=99999999999999999999"})
    EXPECT_EQ(NumberIn(query, "after", 3), 3u) << query;
}

}  // namespace
}  // namespace pw::http
