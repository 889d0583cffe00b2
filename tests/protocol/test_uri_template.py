"""The rules of URI templates: expansion after RFC 6570, matching after our own docstrings."""

import string
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcpcore.protocol.uri_template import TraversalRefused, UriTemplate, _read, _tokenise

RFC_VALUES = {
    "var": "value",
    "hello": "Hello World!",
    "path": "/foo/bar",
    "empty": "",
    "x": "1024",
    "y": "768",
    "half": "50%",
    "base": "http://example.com/home/",
    "who": "fred",
    "semi": ";",
    "v": "6",
}

# RFC 6570 section 1.2, the tables of levels 1 to 3.
RFC_LEVELS = [
    ("{var}", "value"),
    ("{hello}", "Hello%20World%21"),
    ("{+var}", "value"),
    ("{+hello}", "Hello%20World!"),
    ("{+path}/here", "/foo/bar/here"),
    ("here?ref={+path}", "here?ref=/foo/bar"),
    ("X{#var}", "X#value"),
    ("X{#hello}", "X#Hello%20World!"),
    ("map?{x,y}", "map?1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"),
    ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{+path,x}/here", "/foo/bar,1024/here"),
    ("{#x,hello,y}", "#1024,Hello%20World!,768"),
    ("{#path,x}/here", "#/foo/bar,1024/here"),
    ("X{.var}", "X.value"),
    ("X{.x,y}", "X.1024.768"),
    ("{/var}", "/value"),
    ("{/var,x}/here", "/value/1024/here"),
    ("{;x,y}", ";x=1024;y=768"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"),
    ("{?x,y}", "?x=1024&y=768"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="),
    ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&x,y,empty}", "&x=1024&y=768&empty="),
]

# RFC 6570 section 3.2: what each operator makes of empty, undefined and reserved text.
RFC_OPERATORS = [
    ("{half}", "50%25"),
    ("O{empty}X", "OX"),
    ("O{undef}X", "OX"),
    ("{x,empty}", "1024,"),
    ("{x,undef}", "1024"),
    ("{undef,y}", "768"),
    ("{semi}", "%3B"),
    ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
    ("{+base}index", "http://example.com/home/index"),
    ("{+half}", "50%25"),
    ("O{+empty}X", "OX"),
    ("O{+undef}X", "OX"),
    ("up{+path}{var}/here", "up/foo/barvalue/here"),
    ("{#half}", "#50%25"),
    ("foo{#empty}", "foo#"),
    ("foo{#undef}", "foo"),
    ("X{.empty}", "X."),
    ("X{.undef}", "X"),
    ("{/half,who}", "/50%25/fred"),
    ("{/var,empty}", "/value/"),
    ("{/var,undef}", "/value"),
    ("{;half}", ";half=50%25"),
    ("{;empty}", ";empty"),
    ("{;v,empty,who}", ";v=6;empty;who=fred"),
    ("{;v,undef,who}", ";v=6;who=fred"),
    ("{?x,y,undef}", "?x=1024&y=768"),
    ("{?undef}", ""),
    ("{&half}", "&half=50%25"),
]


class TestParsing:
    def test_text_and_variables_in_order_of_appearance_are_kept(self) -> None:
        template = UriTemplate("res://{b}/{+a}{?d,c}")
        assert template.template == "res://{b}/{+a}{?d,c}"
        assert template.variables == ("b", "a", "d", "c")

    @pytest.mark.parametrize("text", ["", "res://plain", "it's/{x}", "a%20b", "é/ü"])
    def test_literals_may_hold_what_a_uri_may_hold_or_escape(self, text: str) -> None:
        assert UriTemplate(text).template == text

    @pytest.mark.parametrize("name", ["x", "X9_", "a.b", "%C3%A9", "a%20.b"])
    def test_names_follow_the_rfc(self, name: str) -> None:
        assert UriTemplate("{" + name + "}").variables == (name,)

    @pytest.mark.parametrize(
        ("text", "position", "reason"),
        [
            ("{", 0, "unbalanced brace"),
            ("ab{x", 2, "unbalanced brace"),
            ("ab}", 2, "unbalanced brace"),
            ("{x}}", 3, "unbalanced brace"),
            ("{{x}}", 0, "unbalanced brace"),
            ("a{x{y}", 1, "unbalanced brace"),
            ("a{}", 2, "names no variable"),
            ("a{?}", 3, "names no variable"),
            ("{a,}", 3, "'' is not a variable name"),
            ("{,a}", 1, "'' is not a variable name"),
            ("{?ab,,c}", 5, "'' is not a variable name"),
            ("{a b}", 1, "'a b' is not a variable name"),
            ("{a-b}", 1, "'a-b' is not a variable name"),
            ("{é}", 1, "'é' is not a variable name"),
            ("{.a.}", 2, "'a.' is not a variable name"),
            ("{a..b}", 1, "'a..b' is not a variable name"),
            ("{a%2}", 1, "'a%2' is not a variable name"),
            ("{+?a}", 2, "'?a' is not a variable name"),
            ("{=a}", 1, "'=a' is not a variable name"),
            ("{!a}", 1, "'!a' is not a variable name"),
            ("{a*}", 2, "level 4 modifier '*' is not supported"),
            ("{?a,b*}", 5, "level 4 modifier '*' is not supported"),
            ("{a:3}", 2, "level 4 modifier ':' is not supported"),
            ("{a}/{a}", 5, "'a' is repeated"),
            ("{?b,b}", 4, "'b' is repeated"),
            ("{x}a b", 4, "' ' must be escaped"),
            ("a\\b", 1, "must be escaped"),
            ("a%", 1, "'%' must be escaped"),
            ("a%4{x}", 1, "'%' must be escaped"),
            ("a%zz", 1, "'%' must be escaped"),
            ("a\x00", 1, "must be escaped"),
            ("a\ud800", 1, "must be escaped"),
            ("{x}a%FF", 3, "not UTF-8"),
            ("%C3{x}%A9", 0, "not UTF-8"),
            ("a{%FF}", 1, "not UTF-8"),
        ],
    )
    def test_a_malformed_template_is_refused_with_position_and_reason(
        self, text: str, position: int, reason: str
    ) -> None:
        with pytest.raises(ValueError, match=f"at position {position}: ") as refusal:
            UriTemplate(text)
        assert reason in str(refusal.value)

    def test_a_long_row_of_open_braces_is_refused_in_linear_time(self) -> None:
        with pytest.raises(ValueError, match="unbalanced brace"):
            UriTemplate("{" * 200_000)
        with pytest.raises(ValueError, match="not a variable name"):
            UriTemplate("{" + "a." * 100_000 + "}")


class TestExpansion:
    @pytest.mark.parametrize(("text", "uri"), RFC_LEVELS + RFC_OPERATORS)
    def test_examples_of_the_rfc(self, text: str, uri: str) -> None:
        assert UriTemplate(text).expand(RFC_VALUES) == uri

    def test_values_are_escaped_as_utf8(self) -> None:
        assert UriTemplate("{x}{?y}").expand({"x": "é/ \0", "y": "\N{SNOWMAN}&="}) == (
            "%C3%A9%2F%20%00?y=%E2%98%83%26%3D"
        )

    def test_reserved_expansion_keeps_escapes_and_escapes_a_lone_percent(self) -> None:
        assert UriTemplate("{+x}").expand({"x": "%2f%zz%"}) == "%2f%25zz%25"
        assert UriTemplate("{x}").expand({"x": "%2f"}) == "%252f"

    def test_literals_outside_the_uri_alphabet_are_escaped(self) -> None:
        assert UriTemplate("é%20!{x}").expand({"x": "1"}) == "%C3%A9%20!1"

    def test_values_for_unknown_names_are_ignored(self) -> None:
        assert UriTemplate("{x}").expand({"x": "1", "z": "2"}) == "1"

    @pytest.mark.parametrize("value", [None, 3, ["a"], b"a"])
    def test_a_value_that_is_not_a_string_is_refused(self, value: object) -> None:
        with pytest.raises(TypeError, match="'x' must be a string"):
            UriTemplate("{x}").expand(cast("Any", {"x": value}))

    @pytest.mark.parametrize("text", ["{x}", "{+x}"])
    def test_a_lone_surrogate_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="surrogates not allowed"):
            UriTemplate(text).expand({"x": "\ud800"})


class TestMatching:
    def test_optional_query_parameters_may_be_left_out(self) -> None:
        # The fault this module exists for: a read that gives only the id went unanswered.
        template = UriTemplate("res://x/{id}{?state,limit}")
        assert template.match("res://x/7") == {"id": "7"}
        assert template.match("res://x/7?limit=5") == {"id": "7", "limit": "5"}
        assert template.match("res://x/7?state=open") == {"id": "7", "state": "open"}

    @pytest.mark.parametrize("uri", ["?a=1&b=2&c=3", "?c=3&a=1&b=2", "?b=2&c=3&a=1"])
    def test_query_parameters_come_in_any_order(self, uri: str) -> None:
        assert UriTemplate("{?a,b,c}").match(uri) == {"a": "1", "b": "2", "c": "3"}

    @pytest.mark.parametrize(
        "uri",
        [
            "res?z=1",
            "res?a=1&z=1",
            "res?z=1&a=1",
            "res?ab=1",
            "res?A=1",
            "res?",
            "res?a",
            "res?a=1&",
            "res?&a=1",
            "res?a=1&&b=2",
            "res&a=1",
            "res?a=1#b",
        ],
    )
    def test_unknown_or_malformed_query_parameters_do_not_fit(self, uri: str) -> None:
        assert UriTemplate("res{?a,b}").match(uri) is None

    def test_a_parameter_given_twice_does_not_fit(self) -> None:
        assert UriTemplate("res{?a,b}").match("res?a=1&a=2") is None
        assert UriTemplate("res{;a}").match("res;a;a") is None
        assert UriTemplate("{+x}{?a}").match("x?a=1&a=2") is None

    def test_a_name_that_begins_another_name_is_told_apart(self) -> None:
        template = UriTemplate("{;a,ab,abc}")
        assert template.match(";ab;a=1;abc=") == {"ab": "", "a": "1", "abc": ""}

    def test_continued_query_follows_a_fixed_one(self) -> None:
        template = UriTemplate("res?fixed=yes{&a,b}")
        assert template.match("res?fixed=yes") == {}
        assert template.match("res?fixed=yes&b=2&a=1") == {"a": "1", "b": "2"}
        assert template.match("res?fixed=no&a=1") is None
        assert template.match("res?a=1") is None

    def test_query_values_may_hold_what_a_query_may_hold(self) -> None:
        template = UriTemplate("{?a,b}")
        assert template.match("?a=x/y?z=1&b=é") == {"a": "x/y?z=1", "b": "é"}

    def test_simple_values_stop_at_a_plain_slash_query_or_fragment(self) -> None:
        template = UriTemplate("res://{id}")
        assert template.match("res://a") == {"id": "a"}
        assert template.match("res://a/b") is None
        assert template.match("res://a/") is None
        assert template.match("res://a?b=1") is None
        assert template.match("res://a#b") is None

    def test_simple_values_may_hold_other_reserved_characters(self) -> None:
        assert UriTemplate("user://{mail}").match("user://a+b@c:d,e") == {"mail": "a+b@c:d,e"}

    def test_a_reading_escaped_as_expansion_does_it_goes_first(self) -> None:
        template = UriTemplate("{+x}:{y}")
        assert template.match("a:b:c") == {"x": "a:b", "y": "c"}
        assert template.match("a:b@c") == {"x": "a", "y": "b@c"}
        assert UriTemplate("{/x}{+y}").match("/a%3A:") == {"x": "a:", "y": ":"}

    def test_simple_and_reserved_values_are_never_empty(self) -> None:
        assert UriTemplate("res://{id}").match("res://") is None
        assert UriTemplate("res://{+id}").match("res://") is None
        assert UriTemplate("{a}/{b}").match("/b") is None

    def test_an_empty_value_fits_where_it_can_be_seen(self) -> None:
        assert UriTemplate("{?a}").match("?a=") == {"a": ""}
        assert UriTemplate("{;a}").match(";a") == {"a": ""}
        assert UriTemplate("{;a}").match(";a=") == {"a": ""}
        assert UriTemplate("X{.a}").match("X.") == {"a": ""}
        assert UriTemplate("X{/a}").match("X/") == {"a": ""}
        assert UriTemplate("X{#a}").match("X#") == {"a": ""}
        assert UriTemplate("{a,b}").match("1,") == {"a": "1", "b": ""}
        assert UriTemplate("{a,b}").match(",2") == {"a": "", "b": "2"}
        assert UriTemplate("{a,b}").match("") is None

    @pytest.mark.parametrize("text", ["X{#a}", "X{.a}", "X{/a}", "X{;a}", "X{?a}", "X{&a}"])
    def test_an_expression_with_a_first_character_may_be_absent(self, text: str) -> None:
        assert UriTemplate(text).match("X") == {}

    def test_reserved_and_fragment_values_may_hold_slashes(self) -> None:
        assert UriTemplate("f:{+path}").match("f:a/b//c?d#e") == {"path": "a/b//c?d#e"}
        assert UriTemplate("f{#frag}").match("f#/a/b") == {"frag": "/a/b"}

    def test_a_reserved_value_leaves_a_following_query_alone(self) -> None:
        template = UriTemplate("file:///{+path}{?limit}")
        assert template.match("file:///a/b?limit=3") == {"path": "a/b", "limit": "3"}
        assert template.match("file:///a/b") == {"path": "a/b"}

    def test_first_names_are_given_the_values(self) -> None:
        template = UriTemplate("X{/a,b}")
        assert template.match("X/1") == {"a": "1"}
        assert template.match("X/1/2") == {"a": "1", "b": "2"}
        assert template.match("X/1/2/3") is None

    def test_ambiguous_cuts_are_leftmost_shortest(self) -> None:
        assert UriTemplate("{a}{b}").match("xyz") == {"a": "x", "b": "yz"}
        assert UriTemplate("{a}-{b}").match("x-y-z") == {"a": "x", "b": "y-z"}
        assert UriTemplate("{+a}/{b}").match("x/y/z") == {"a": "x/y", "b": "z"}
        assert UriTemplate("X{.a,b}").match("X.1.2.3") == {"a": "1", "b": "2.3"}
        assert UriTemplate("{/a}{/b}").match("/x") == {"a": "x"}

    def test_a_cut_never_splits_an_escaped_character(self) -> None:
        assert UriTemplate("{a}{b}").match("%C3%A9%41") == {"a": "é", "b": "A"}
        assert UriTemplate("{a}{b}").match("%C3%A9") is None

    def test_literals_are_compared_exactly(self) -> None:
        template = UriTemplate("Res://a.b/{x}")
        assert template.match("Res://a.b/1") == {"x": "1"}
        assert template.match("res://a.b/1") is None
        assert template.match("Res://aXb/1") is None
        assert template.match("Res://a%2Eb/1") is None
        assert template.match("Res://a.b/1\n") == {"x": "1\n"}
        assert template.match("") is None
        assert UriTemplate("").match("") == {}
        assert UriTemplate("").match("a") is None

    def test_escapes_in_literals_are_compared_without_case(self) -> None:
        template = UriTemplate("é%2f{x}")
        for uri in ("é%2F1", "%c3%a9%2f1", "%C3%A9%2F1"):
            assert template.match(uri) == {"x": "1"}
        assert template.match("é/1") is None

    def test_values_are_decoded(self) -> None:
        template = UriTemplate("{x}{?q}")
        assert template.match("a%20b?q=%26%3d+") == {"x": "a b", "q": "&=+"}
        assert template.match("%E2%98%83") == {"x": "\N{SNOWMAN}"}
        assert template.match("a b\N{SNOWMAN}") == {"x": "a b\N{SNOWMAN}"}

    @pytest.mark.parametrize(
        "uri",
        [
            "r/%",
            "r/%4",
            "r/a%zz",
            "r/%%41",
            "r/%FF",
            "r/%C3",
            "r/%C3x%A9",
            "r/%C0%AE",
            "r/%ED%A0%80",
            "r/\ud800",
        ],
    )
    def test_wrong_escapes_and_wrong_utf8_do_not_fit(self, uri: str) -> None:
        assert UriTemplate("r/{+x}").match(uri) is None
        assert UriTemplate("r/{x}").match(uri, allow_traversal=True) is None


class TestTraversal:
    @pytest.mark.parametrize(
        ("text", "uri", "value"),
        [
            ("f/{x}", "f/..", ".."),
            ("f/{x}", "f/.", "."),
            ("f/{x}", "f/%2e%2E", ".."),
            ("f/{x}", "f/%2e%2e%2f", "../"),
            ("f/{x}", "f/..%2f..%2fetc", "../../etc"),
            ("f/{x}", "f/a%2Fb", "a/b"),
            ("f/{x}", "f/a%5Cb", "a\\b"),
            ("f/{x}", "f/a\\b", "a\\b"),
            ("f/{x}", "f/a%00", "a\0"),
            ("f/{x}", "f/a\0", "a\0"),
            ("f/{+x}", "f/../etc", "../etc"),
            ("f/{+x}", "f/a/../b", "a/../b"),
            ("f/{+x}", "f/a/./b", "a/./b"),
            ("f/{+x}", "f/a/..", "a/.."),
            ("f/{+x}", "f/a/%2e%2e%2fb", "a/../b"),
            ("f/{+x}", "f//etc", "/etc"),
            ("f/{+x}", "f/%2Fetc", "/etc"),
            ("f/{+x}", "f/a%5c..%5cb", "a\\..\\b"),
            ("f/{+x}", "f/a%00b", "a\0b"),
            ("f{#x}", "f#a/../b", "a/../b"),
            ("f{.x}", "f.a%2Fb", "a/b"),
            ("f{/x}", "f/..", ".."),
            ("f{/x}", "f/a%2Fb", "a/b"),
            ("f{;x}", "f;x=a%2Fb", "a/b"),
            ("f{;x}", "f;x=..", ".."),
            ("f{?x}", "f?x=../etc", "../etc"),
            ("f{?x}", "f?x=..%2Fetc", "../etc"),
            ("f{&x}", "f&x=%00", "\0"),
        ],
    )
    def test_a_value_that_leads_outside_is_refused_unless_allowed(
        self, text: str, uri: str, value: str
    ) -> None:
        template = UriTemplate(text)
        with pytest.raises(TraversalRefused, match="'x'"):
            template.match(uri)
        assert template.match(uri, allow_traversal=True) == {"x": value}

    @pytest.mark.parametrize(
        ("text", "uri", "value"),
        [
            ("f/{x}", "f/...", "..."),
            ("f/{x}", "f/..a", "..a"),
            ("f/{x}", "f/.hidden", ".hidden"),
            ("f/{+x}", "f/a..b/c.", "a..b/c."),
            ("f{?x}", "f?x=/a/b", "/a/b"),
            ("f{#x}", "f#/a/b", "/a/b"),
        ],
    )
    def test_a_value_that_only_looks_alike_is_let_through(
        self, text: str, uri: str, value: str
    ) -> None:
        assert UriTemplate(text).match(uri) == {"x": value}

    def test_escapes_are_decoded_once_only(self) -> None:
        assert UriTemplate("f/{x}").match("f/%252e%252e%252f") == {"x": "%2e%2e%2f"}
        assert UriTemplate("f/{+x}").match("f/%252e%252e%252f") == {"x": "%2e%2e%2f"}

    def test_a_refusal_is_told_apart_from_no_match(self) -> None:
        template = UriTemplate("f/{x}")
        assert issubclass(TraversalRefused, ValueError)
        assert template.match("g/..") is None
        assert template.match("f/../..") is None

    def test_every_value_is_looked_at(self) -> None:
        with pytest.raises(TraversalRefused, match="'b'"):
            UriTemplate("{a}{?b}").match("x?b=..")


class TestBoundedWork:
    HOSTILE = ("a/" * 10_000, "?a=1" + "&a=1" * 4_000, "%2e" * 5_000, ",;&." * 4_000)

    @pytest.mark.parametrize(
        "text", ["{a}/{b}!", "{+a}/{+b}/{+c}!", "{+a,b,c}a{?d}", "{a}{b}{c}!", "{/a,b}{;c,d}{?e}"]
    )
    def test_hostile_uris_are_answered(self, text: str) -> None:
        template = UriTemplate(text)
        for uri in self.HOSTILE:
            assert template.match(uri, allow_traversal=True) is None

    @pytest.mark.parametrize("text", ["{+a}/{+b}/{+c}!", "{+a}{?b,c}{&d,e}!", "{a}{b}{c}{d}!"])
    @pytest.mark.parametrize("piece", ["a/", "a", "?b=1", "&d=1&b=2"])
    def test_steps_grow_no_faster_than_the_uri(self, text: str, piece: str) -> None:
        class Counting(list[str]):
            steps = 0

            def __getitem__(self, key: Any) -> Any:
                self.steps += 1
                return super().__getitem__(key)

        steps = []
        for count in (200, 400):
            tokens = Counting(_tokenise(piece * count))
            for graph in UriTemplate(text)._graphs:
                assert _read(graph, tokens) is None
            steps.append(tokens.steps)
        assert steps[1] < 2.2 * steps[0]  # Quadratic growth would make it 4.

    def test_a_huge_uri_is_answered(self) -> None:
        assert UriTemplate("res://x/{id}{?state,limit}").match("a/" * 50_000) is None
        assert UriTemplate("{+a}/{b}!").match("a/" * 50_000) is None

    def test_a_huge_value_is_read(self) -> None:
        path = "a/" * 50_000
        assert UriTemplate("f:{+x}!{?q}").match(f"f:{path}!?q=1") == {"x": path, "q": "1"}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
filled = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
hostile_texts = st.text(
    st.one_of(st.sampled_from("/?#;&=,.%2eEfFxyzab\\\0!"), st.characters()), max_size=40
)
# Every operator, and neighbours that can be told apart: what ends a value is never in one.
CLEAR = [
    ("res://{x}", {"x": filled}, {}),
    ("res://{x}/{y}", {"x": filled, "y": filled}, {}),
    ("{x}!{y}{?z}", {"x": filled, "y": filled}, {"z": texts}),
    ("{x,y}", {"x": filled, "y": texts}, {}),
    ("res:{/x}{?y,z}", {}, {"x": texts, "y": texts, "z": texts}),
    ("res:{;x,y}{/z}", {}, {"x": texts, "y": texts, "z": texts}),
    ("res:{x}{?y}{&z}", {"x": filled}, {"y": texts, "z": texts}),
    ("res?a=b{&x,y}{#z}", {}, {"x": texts, "y": texts, "z": texts}),
    ("res{.x}", {}, {"x": texts}),
    ("res{#x}", {}, {"x": texts}),
    ("res:{+x}", {"x": filled}, {}),
    ("{+x}:{y}", {"x": filled, "y": filled}, {}),
    ("é%2F{x}:{+y}", {"x": filled, "y": filled}, {}),
]
optional_values = st.fixed_dictionaries({}, optional={"x": filled, "y": filled, "z": texts})
WILD = [text for text, _, _ in CLEAR] + [
    "{x}{y}{z}",
    "{+x}{?y,z}",
    "{+x}/{+y}{z}",
    "{x}-{y}{.z}",
    "{;x,y}x{+z}",
    "{/x}{/y}{+z}",
    "{#x,y,z}",
]


class TestProperties:
    @given(data=st.data())
    @settings(deadline=None)
    def test_matching_undoes_expansion_where_it_is_unambiguous(self, data: st.DataObject) -> None:
        text, required, optional = data.draw(st.sampled_from(CLEAR))
        values = data.draw(st.fixed_dictionaries(required, optional=optional))
        # Reserved expansion takes "%41" in a value for an escape already made.
        assume(not ("{+" in text or "{#" in text) or "%" not in "".join(values.values()))
        template = UriTemplate(text)
        assert template.match(template.expand(values), allow_traversal=True) == values

    @given(text=st.sampled_from(WILD), values=optional_values)
    @settings(deadline=None)
    def test_what_an_ambiguous_uri_is_read_as_expands_to_it_again(
        self, text: str, values: dict[str, str]
    ) -> None:
        assume("%" not in "".join(values.values()))
        required = [name for name in "xyz" if "{" + name in text or "{+" + name in text]
        assume(all(values.get(name) for name in required))
        # A value of {+x} that itself spells a query could give a parameter twice.
        assume("{+x}" not in text or "?" not in values["x"])
        template = UriTemplate(text)
        uri = template.expand(values)
        found = template.match(uri, allow_traversal=True)
        assert found is not None
        assert template.expand(found) == uri

    @given(text=st.sampled_from(WILD), uri=hostile_texts)
    @settings(deadline=None)
    def test_any_uri_is_answered_or_refused_for_traversal(self, text: str, uri: str) -> None:
        template = UriTemplate(text)
        try:
            found = template.match(uri)
        except TraversalRefused:
            assert template.match(uri, allow_traversal=True) is not None
        else:
            assert found is None or set(found) <= set(template.variables)
            assert found == template.match(uri, allow_traversal=True)

    @given(text=st.text(string.ascii_letters + "{}?+#./;&,*:%2 é", max_size=20))
    @settings(deadline=None)
    def test_any_template_is_parsed_or_refused(self, text: str) -> None:
        try:
            template = UriTemplate(text)
        except ValueError:
            with pytest.raises(ValueError, match=r"^malformed URI template at position \d+: "):
                UriTemplate(text)
        else:
            uri = template.expand(dict.fromkeys(template.variables, "1"))
            assert template.match(uri) is not None

    @given(value=filled)
    def test_no_dangerous_value_gets_through_a_simple_variable(self, value: str) -> None:
        template = UriTemplate("f/{x}")
        dangerous = value in {".", ".."} or not {"/", "\\", "\0"}.isdisjoint(value)
        if dangerous:
            with pytest.raises(TraversalRefused):
                template.match(template.expand({"x": value}))
        else:
            assert template.match(template.expand({"x": value})) == {"x": value}
