"""HTTP with patience, bounds and a token that stays where it belongs."""

from __future__ import annotations

import datetime as dt
import email.utils
import traceback
from pathlib import Path

import pytest

from orchestrator.backends.service import AbsentError, ConflictError, UnclearError
from orchestrator.errors import InfrastructureError, UsageError
from orchestrator.settings import Secret, Settings
from tests.backends.services.conftest import TOKEN, Place
from tests.backends.services.conversation import Answer

MOST = 1 << 20


def waited(place: Place) -> float:
    """Seconds that went by."""
    return place.time.seconds - 1000.0


class TestGet:
    """JSON values and lists of them."""

    @pytest.mark.parametrize(
        "fault",
        [
            Answer(status=502),
            Answer(status=503),
            Answer(b"<html>welcome</html>"),
            Answer({"a": 1}, cut=3),
            Answer(hangs_up=True),
        ],
    )
    def test_what_comes_and_goes_is_asked_again(self, place: Place, fault: Answer) -> None:
        place.api.answers["GET /x"] = [fault, fault, Answer({"a": 1})]
        assert place.web().get("x") == {"a": 1}
        assert place.api.count("GET /x") == 3
        assert waited(place) == 1.0 + 2.0  # pauses double, and half of them is chance
        assert len(place.said) == 1
        assert "Forge lets us wait" in place.said[0]

    def test_patience_ends(self, place: Place) -> None:
        place.api.answers["GET /x"] = [Answer(status=500)]
        with pytest.raises(InfrastructureError, match="did not answer for 60 s: HTTP 500"):
            place.web().get("x")
        assert 30 < waited(place) <= 60

    @pytest.mark.parametrize(
        ("headers", "status", "seconds"),
        [
            ({"Retry-After": "7"}, 429, 7),
            ({"Retry-After": "7", "X-RateLimit-Remaining": "10"}, 403, 7),
            ({"Retry-After": "7"}, 503, 7),
            ({"RateLimit-Reset": "42", "RateLimit-Remaining": "0"}, 429, 42),
            ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "{epoch}"}, 403, 1800),
            ({"Retry-After": "{date}"}, 429, 90),
            ({}, 429, 60),
        ],
    )
    def test_a_limit_is_waited_for_as_the_service_says(
        self, place: Place, headers: dict[str, str], status: int, seconds: int
    ) -> None:
        then = place.time.clock().now() + dt.timedelta(seconds=seconds)
        given = {
            name: value.replace("{epoch}", str(int(then.timestamp()))).replace(
                "{date}", email.utils.format_datetime(then, usegmt=True)
            )
            for name, value in headers.items()
        }
        place.api.answers["GET /x"] = [Answer({}, status, given), Answer({"a": 1})]
        assert place.web().get("x") == {"a": 1}
        assert waited(place) == pytest.approx(seconds + 0.5, abs=1.0)

    def test_a_limit_that_is_told_in_words(self, place: Place) -> None:
        told = Answer({"message": "You have exceeded a secondary rate limit."}, 403)
        place.api.answers["GET /x"] = [told, Answer({"a": 1})]
        assert place.web().get("x") == {"a": 1}

    def test_a_limit_beyond_patience_is_told(self, place: Place) -> None:
        place.api.answers["GET /x"] = [Answer(status=429, headers={"Retry-After": "86400"})]
        with pytest.raises(InfrastructureError, match="did not answer for 4000 s: HTTP 429"):
            place.web().get("x")
        assert waited(place) == 0

    def test_all_pages(self, place: Place) -> None:
        link = {"Link": '<{url}/more?page=2>; rel="next", <{url}/more?page=9>; rel="last"'}
        place.api.answers["GET /x"] = [Answer({"items": [{"n": 1}, {"n": 2}]}, headers=link)]
        place.api.answers["GET /more"] = [Answer({"items": [{"n": 3}, "odd"]})]
        assert [item["n"] for item in place.web().pages("x", key="items")] == [1, 2, 3]
        assert place.api.asked[0].query == {"per_page": ["100"]}
        assert place.api.asked[1].query == {"page": ["2"]}

    def test_no_page_of_somebody_else(self, place: Place) -> None:
        link = {"Link": f'<{place.store.url}/x>; rel="next"'}
        place.api.answers["GET /x"] = [Answer([{"n": 1}], headers=link)]
        assert len(list(place.web().pages("x"))) == 1
        assert place.store.asked == []

    def test_what_did_not_change_is_not_sent_again(self, place: Place) -> None:
        place.api.answers["GET /x"] = [Answer({"a": 1}, headers={"ETag": '"v1"'})]
        web = place.web()
        assert web.get("x") == web.get("x") == {"a": 1}
        assert [asked.headers.get("If-None-Match") for asked in place.api.asked] == [None, '"v1"']

    def test_what_is_not_there(self, place: Place) -> None:
        with pytest.raises(AbsentError):
            place.web().get("x")

    def test_what_cannot_be_there(self, place: Place, tmp_path: Path) -> None:
        place.api.answers["GET /x"] = [Answer({"message": "No commit found"}, 422)]
        with pytest.raises(AbsentError, match="No commit found"):
            place.web().get("x")
        with pytest.raises(AbsentError):
            place.web().fetch("x", tmp_path / "x", MOST)

    def test_what_has_moved_is_told(self, place: Place) -> None:
        moved = Answer({"message": "Moved"}, 301, {"Location": "{url}/y"})
        place.api.answers["GET /x"] = [moved]
        with pytest.raises(UsageError, match="has moved"):
            place.web().get("x")


class TestPost:
    """What must not be done twice."""

    @pytest.mark.parametrize("fault", [Answer(status=502), Answer(hangs_up=True)])
    def test_what_is_unclear_is_said(self, place: Place, fault: Answer) -> None:
        place.api.answers["POST /x"] = [fault]
        with pytest.raises(UnclearError):
            place.web().post("x", {})
        assert place.api.count("POST /x") == 1

    def test_a_limit_means_that_nothing_was_done(self, place: Place) -> None:
        limit = Answer(status=429, headers={"Retry-After": "5"})
        place.api.answers["POST /x"] = [limit, Answer({"id": 1}, 201)]
        assert place.web().post("x", {"a": 1}) == {"id": 1}
        assert [asked.body for asked in place.api.asked] == [{"a": 1}, {"a": 1}]

    def test_an_answer_without_a_body(self, place: Place) -> None:
        place.api.answers["POST /x"] = [Answer(status=204)]
        assert place.web().post("x", {}) is None

    @pytest.mark.parametrize("status", [409, 422])
    def test_a_conflict(self, place: Place, status: int) -> None:
        place.api.answers["POST /x"] = [Answer({"message": "no"}, status)]
        with pytest.raises(ConflictError, match="no"):
            place.web().post("x", {})


class TestFetch:
    """Files, from elsewhere."""

    def test_the_token_does_not_follow_a_redirect(self, place: Place, tmp_path: Path) -> None:
        place.api.answers["GET /file"] = [
            Answer(status=302, headers={"Location": f"{place.store.url}/blob?sig=abc"})
        ]
        place.store.answers["GET /blob"] = [Answer(b"data")]
        place.web().fetch("file", tmp_path / "deep" / "file", MOST)
        assert (tmp_path / "deep" / "file").read_bytes() == b"data"
        assert place.api.asked[0].headers["Authorization"] == f"Bearer {TOKEN}"
        assert "Authorization" not in place.store.asked[0].headers
        assert place.store.asked[0].query == {"sig": ["abc"]}

    def test_what_is_cut_short_is_fetched_again(self, place: Place, tmp_path: Path) -> None:
        place.api.answers["GET /file"] = [Answer(b"whole file", cut=4), Answer(b"whole file")]
        place.web().fetch("file", tmp_path / "file", MOST)
        assert (tmp_path / "file").read_bytes() == b"whole file"
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_what_is_too_large_is_refused(self, place: Place, tmp_path: Path) -> None:
        place.api.answers["GET /file"] = [Answer(b"x" * 2000)]
        with pytest.raises(InfrastructureError, match="2,000 bytes is refused: 1,000 at most"):
            place.web().fetch("file", tmp_path / "file", 1000)
        assert list(tmp_path.iterdir()) == []

    def test_for_ever(self, place: Place, tmp_path: Path) -> None:
        place.api.answers["GET /file"] = [Answer(status=302, headers={"Location": "/file"})]
        with pytest.raises(InfrastructureError, match="redirects for ever"):
            place.web().fetch("file", tmp_path / "file", MOST)

    def test_what_is_gone(self, place: Place, tmp_path: Path) -> None:
        place.api.answers["GET /file"] = [Answer(status=410)]
        with pytest.raises(AbsentError):
            place.web().fetch("file", tmp_path / "file", MOST)


class TestToken:
    """It is shown nowhere."""

    @pytest.mark.parametrize(
        ("status", "says"), [(401, "wrong, expired or revoked"), (403, "may not do that")]
    )
    def test_a_refusal_says_what_to_do(self, place: Place, status: int, says: str) -> None:
        place.api.answers["GET /x"] = [Answer({"message": f"bad token {TOKEN}"}, status)]
        with pytest.raises(UsageError, match=says) as caught:
            place.web().get("x")
        assert "Make a new one." in str(caught.value)
        assert TOKEN not in "".join(traceback.format_exception(caught.value))

    def test_no_error_has_it(self, place: Place, tmp_path: Path) -> None:
        place.api.answers["GET /x"] = [Answer(hangs_up=True)]
        place.api.answers["GET /y"] = [
            Answer(status=302, headers={"Location": "http://127.0.0.1:1/blob?sig=secret"})
        ]
        web = place.web()
        for call in (lambda: web.get("x"), lambda: web.fetch("y", tmp_path / "y", MOST)):
            with pytest.raises(InfrastructureError) as caught:
                call()
            text = "".join(traceback.format_exception(caught.value, chain=False))
            assert TOKEN not in text
            assert "sig=secret" not in str(caught.value)
        assert TOKEN not in " ".join(place.said)

    def test_settings_do_not_show_it(self) -> None:
        settings = Settings.from_environment({"LH_GITHUB_TOKEN": TOKEN})
        assert settings.github_token == Secret(TOKEN)
        assert settings.github_token != Secret("other")
        assert TOKEN not in repr(settings)
        assert TOKEN not in str(settings.github_token)

    @pytest.mark.parametrize("value", ["two words", "line\nbreak", "umläut"])
    def test_what_is_no_token_is_told_without_it(self, value: str) -> None:
        with pytest.raises(UsageError, match="LH_GITHUB_TOKEN") as caught:
            Settings.from_environment({"LH_GITHUB_TOKEN": value})
        assert value not in str(caught.value)
