//! SQL by sqlparser, and the part of it that is understood here.
//!
//! It has comparisons of columns and literals, `AND`, `OR`, `NOT`, `IS [NOT] NULL`, `[NOT] IN`, `[NOT] BETWEEN` and
//! parentheses, with the precedence that Spark has. Texts that engines read differently are refused: a condition means
//! the same to all of them.

use std::borrow::Cow;

use sqlparser::ast::{BinaryOperator, Expr, Ident, InTarget, Spanned, UnaryOperator};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::Purpose;
use super::bound::Operator;
use super::fault::{MOST_SHOWN, SqlFault, cut};
use super::literals::SqlLiteral;
use super::tokens::tokens;

/// The depth of parentheses and `NOT` at most.
const MOST_DEPTH: usize = 64;

/// The levels of the parser that the whole takes, and a comparison with a number that has a sign.
const OTHER_LEVELS: usize = 4;

/// The bytes of an expression at most.
const MOST_BYTES: usize = 64 << 10;

/// The words for what may stand where a value is asked for.
const OPERAND: &str = "a column or a literal";

/// The words for what may follow a value.
const AFTER: &str = "a comparison, IS NULL, IN, BETWEEN, AND or OR, or nothing more";

/// The words that have backquotes as names of columns in a constraint that is added. Spark with ANSI's reserved words,
/// or `DataFusion`, which delta-rs checks with, takes one for something else.
const ANSI_RESERVED: &str = "
    all and anti any array as authorization between both by case cast check collate column connect constraint
    convert create cross cube current current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default delete describe distinct div drop else end escape except exists explain
    extract false fetch filter for foreign from full grant group grouping having ilike in inner insert intersect
    interval into is join lateral leading left like limit localtime localtimestamp match minus natural not null
    offset on only or order outer over overlaps overlay partition position primary prior qualify references regexp
    right rlike rollup row rows select semi session_user set similar some sort sql struct substring table
    tablesample then to trailing trim true try_cast union unique unknown unnest update user using values when where
    window with within
";

/// Parses a condition. The error says why it is not understood.
///
/// Each column is an [`Expr::CompoundIdentifier`]. Names and texts have doubled quotes as they are written.
pub(super) fn parse(text: &str, purpose: Purpose) -> Result<Expr, SqlFault> {
    if text.len() > MOST_BYTES {
        return Err(SqlFault::of_all(format!("it is longer than {MOST_BYTES} bytes")));
    }
    let grammar = Grammar { purpose };
    let mut parser = Parser::new(&grammar)
        .with_recursion_limit(MOST_DEPTH + OTHER_LEVELS)
        .with_tokens_with_locations(tokens(text, &grammar)?);
    let parsed = parser
        .parse_expr()
        .and_then(|expression| match parser.peek_token_ref() {
            end if end.token == Token::EOF => Ok(expression),
            other => Err(unexpected(other, AFTER)),
        });
    let expression = parsed.map_err(|error| match error {
        ParserError::ParserError(why) | ParserError::TokenizerError(why) => placed(&why),
        ParserError::RecursionLimitExceeded => SqlFault::at(
            parser.peek_token_ref().span.start,
            format!("it is nested deeper than {MOST_DEPTH}"),
        ),
    })?;
    check(&expression)?;
    Ok(expression)
}

/// The parser's fault, which ends with its place, if that is not the end of the text.
fn placed(why: &str) -> SqlFault {
    let place = why.rsplit_once(" at Line: ").and_then(|(why, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((why, Location::new(line.parse().ok()?, column.parse().ok()?)))
    });
    let (why, at) = place.unwrap_or((why, Location::empty()));
    let expected = why.strip_prefix("Expected: ");
    // The parser knows more, such as IS JSON.
    let expected = expected.map(|expected| match expected.split_once(" after IS, found: ") {
        Some((_, found)) => Cow::Owned(format!("NULL or NOT NULL after IS, found: {found}")),
        None => Cow::Borrowed(expected),
    });
    match expected
        .as_deref()
        .and_then(|expected| expected.rsplit_once(", found: "))
    {
        Some((expected, "EOF")) => SqlFault::at(at, format!("it ends too early, before {expected}")),
        Some((expected, found)) => SqlFault::at(
            at,
            format!("{found} is not expected where it stands, but {expected}"),
        ),
        None => SqlFault::at(at, why),
    }
}

/// SQL as Spark has it, with its words as names of columns wherever they can be.
#[derive(Debug)]
pub(super) struct Grammar {
    pub purpose: Purpose,
}

impl Dialect for Grammar {
    fn is_identifier_start(&self, sign: char) -> bool {
        sign.is_ascii_alphabetic() || sign == '_'
    }

    fn is_identifier_part(&self, sign: char) -> bool {
        sign.is_ascii_alphanumeric() || sign == '_'
    }

    fn is_delimited_identifier_start(&self, sign: char) -> bool {
        sign == '`'
    }

    fn is_reserved_for_identifier(&self, _: Keyword) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        use Keyword::{AND, BETWEEN, FALSE, IN, IS, NOT, NULL, OR, TRUE};
        let next = parser.peek_token_ref();
        let word = match &next.token {
            Token::Word(word) => word,
            Token::LParen | Token::Minus | Token::Number(..) | Token::SingleQuotedString(_) => return None,
            _ => return Some(Err(unexpected(next, OPERAND))),
        };
        match (word.keyword, &parser.peek_nth_token_ref(1).token) {
            (AND | BETWEEN | IN | IS | OR, _) => Some(Err(unexpected(next, OPERAND))),
            // A literal may have its type before it.
            (NOT | NULL | TRUE | FALSE, _) | (_, Token::SingleQuotedString(_)) => None,
            _ => Some(self.column(parser)),
        }
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let next = parser.peek_token_ref();
        let (first, second) = (keyword(next), keyword(parser.peek_nth_token_ref(1)));
        match (first, second) {
            (Keyword::AND, _) => Some(self.chain(parser, left, &BinaryOperator::And, precedence)),
            (Keyword::OR, _) => Some(self.chain(parser, left, &BinaryOperator::Or, precedence)),
            // A chain of other operators would be as deep as it is long.
            _ if !is_operand(left) || next.token == Token::Minus => Some(Err(unexpected(next, AFTER))),
            (Keyword::NOT, Keyword::NULL) => Some(Err(unexpected(next, AFTER))),
            (Keyword::IN, _) | (Keyword::NOT, Keyword::IN) => Some(list(parser, left)),
            _ => None,
        }
    }
}

impl Grammar {
    /// The names of a column, or of a field of one.
    fn column(&self, parser: &mut Parser) -> Result<Expr, ParserError> {
        let mut names = Vec::new();
        loop {
            let next = parser.next_token();
            let Token::Word(word) = next.token else {
                return Err(unexpected(&next, "the name of a field"));
            };
            if self.purpose == Purpose::Added && word.quote_style.is_none() && is_ansi_reserved(&word.value) {
                let why = format!("SQL reserves the word {word}: write the column as `{word}`");
                return Err(refused(&why, next.span.start));
            }
            names.push(Ident {
                value: word.value,
                quote_style: word.quote_style,
                span: next.span,
            });
            if !parser.consume_token(&Token::Period) {
                return Ok(Expr::CompoundIdentifier(names));
            }
        }
    }

    /// The expressions that `AND` or `OR` joins, as a tree whose depth is the logarithm of their number: what goes down
    /// thousands of them would need as much stack. They are no level of what is nested.
    fn chain(
        &self,
        parser: &mut Parser,
        first: &Expr,
        operator: &BinaryOperator,
        precedence: u8,
    ) -> Result<Expr, ParserError> {
        let mut others = Vec::new();
        while parser.get_next_precedence()? == precedence {
            parser.next_token();
            let mut part = parser.parse_prefix()?;
            loop {
                let next = parser.get_next_precedence()?;
                if next <= precedence {
                    break;
                }
                part = match self.parse_infix(parser, &part, next) {
                    Some(whole) => whole?,
                    None => parser.parse_infix(part, next)?,
                };
            }
            others.push(part);
        }
        Ok(joined(first.clone(), others, operator))
    }
}

fn joined(first: Expr, mut others: Vec<Expr>, operator: &BinaryOperator) -> Expr {
    let mut later = others.split_off(others.len() / 2).into_iter();
    let Some(middle) = later.next() else {
        return first;
    };
    Expr::BinaryOp {
        left: Box::new(joined(first, others, operator)),
        op: operator.clone(),
        right: Box::new(joined(middle, later.collect(), operator)),
    }
}

/// `[NOT] IN` with its list. sqlparser would look for a query in it.
fn list(parser: &mut Parser, left: &Expr) -> Result<Expr, ParserError> {
    let negated = parser.parse_keyword(Keyword::NOT);
    parser.next_token();
    parser.expect_token(&Token::LParen)?;
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::In {
        expr: Box::new(left.clone()),
        target: InTarget::List(list),
        negated,
        global: false,
    })
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

fn is_ansi_reserved(word: &str) -> bool {
    let mut reserved = ANSI_RESERVED.split_ascii_whitespace();
    reserved.any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// Refuses an expression that no condition is built of, whatever the columns.
fn check(expression: &Expr) -> Result<(), SqlFault> {
    match expression {
        Expr::CompoundIdentifier(_) => Ok(()),
        Expr::Nested(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) => check(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => check(expr),
        Expr::BinaryOp { left, op, right }
            if matches!(op, BinaryOperator::And | BinaryOperator::Or) || Operator::of(op).is_some() =>
        {
            check(left)?;
            check(right)
        }
        Expr::In {
            expr,
            target: InTarget::List(list),
            ..
        } => {
            for item in list {
                if SqlLiteral::of(item)?.is_none() {
                    return Err(SqlFault::at(
                        place(item),
                        "a list has something else than literals",
                    ));
                }
            }
            check(expr)
        }
        Expr::Between { expr, low, high, .. } => {
            // It is two comparisons of the value.
            if !matches!(bare(expr), Expr::CompoundIdentifier(_)) && SqlLiteral::of(expr)?.is_none() {
                return Err(SqlFault::at(
                    place(expr),
                    "BETWEEN goes with a column or a literal",
                ));
            }
            check(low)?;
            check(high)
        }
        other => match SqlLiteral::of(other)? {
            Some(_) => Ok(()),
            None => Err(unknown(other)),
        },
    }
}

/// The fault of an expression that is parsed, and of which no condition is built.
pub(super) fn unknown(expression: &Expr) -> SqlFault {
    let why = match expression {
        Expr::Like { .. } | Expr::ILike { .. } | Expr::RLike { .. } | Expr::SimilarTo { .. } => {
            "patterns are not supported".to_owned()
        }
        Expr::BinaryOp { op, .. } => format!("the operator {op} is not supported"),
        other => format!("{} is not known", cut(&other.to_string(), MOST_SHOWN)),
    };
    SqlFault::at(place(expression), why)
}

/// The expression inside of parentheses.
pub(super) fn bare(mut expression: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    expression
}

/// The place of an expression, but for what only opens it.
pub(super) fn place(expression: &Expr) -> Location {
    expression.span().start
}

fn is_operand(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::CompoundIdentifier(_)
            | Expr::Nested(_)
            | Expr::Value(_)
            | Expr::TypedString(_)
            | Expr::UnaryOp {
                op: UnaryOperator::Minus,
                ..
            }
    )
}

/// The error of a token where something else was expected, in the form that the parser itself gives it.
fn unexpected(token: &TokenWithSpan, expected: &str) -> ParserError {
    refused(&format!("Expected: {expected}, found: {token}"), token.span.start)
}

fn refused(why: &str, place: Location) -> ParserError {
    ParserError::ParserError(format!("{why}{place}"))
}

/// The text of the expression that a text is; none for one that is not understood.
///
/// # Panics
/// When the text of the expression is another expression.
#[cfg(any(test, fuzzing))]
pub(crate) fn reprinted(text: &str, purpose: Purpose) -> Option<String> {
    let expression = parse(text, purpose).ok()?;
    let printed = expression.to_string();
    if printed.len() > MOST_BYTES {
        return None;
    }
    assert_eq!(
        parse(&printed, purpose),
        Ok(expression),
        "{text} became {printed}"
    );
    Some(printed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::on_own_stack;
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        parse_for(text, Purpose::Stated)
    }

    /// The expression with parentheses around each that is joined.
    fn parse_for(text: &str, purpose: Purpose) -> Result<String, String> {
        on_own_stack(|| super::parse(text, purpose).map(|parsed| grouped(&parsed))).map_err(|fault| fault.why)
    }

    fn grouped(expression: &Expr) -> String {
        match expression {
            Expr::Nested(inner) => grouped(inner),
            Expr::UnaryOp { op, expr } => format!("{op} {}", grouped(expr)),
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", grouped(left), grouped(right)),
            other => other.to_string(),
        }
    }

    #[test]
    fn not_binds_closer_than_and_and_that_closer_than_or() {
        for (text, expected) in [
            ("NOT a AND b OR NOT (c or d)", "((NOT a AND b) OR NOT (c OR d))"),
            ("a OR b AND c", "(a OR (b AND c))"),
            ("a = 1 AND NOT b == 2 or c", "(((a = 1) AND NOT (b = 2)) OR c)"),
            ("not not a is null and b", "(NOT NOT a IS NULL AND b)"),
            (
                "a between 1 and 2 and b not between c and d or e",
                "((a BETWEEN 1 AND 2 AND b NOT BETWEEN c AND d) OR e)",
            ),
            (
                "a.`b` in (1, -2) or c NOT IN (null)",
                "(a.`b` IN (1, -2) OR c NOT IN (NULL))",
            ),
            ("x IS NOT NULL", "x IS NOT NULL"),
            ("a<>-1 and b!=.", ". is not expected"),
        ] {
            let parsed = parse(text).unwrap_or_else(|why| why);
            assert!(parsed.contains(expected), "{text}: {parsed}");
        }
    }

    #[test]
    fn words_may_be_columns_and_types() {
        for (text, expected) in [
            ("date >= DATE '2026-01-31'", "(date >= DATE '2026-01-31')"),
            ("timestamp < timestamp'x'", "(timestamp < TIMESTAMP 'x')"),
            ("`not` = 'x'", "(`not` = 'x')"),
            ("`a``b.c` . d", "`a``b.c`.d"),
            ("interval is null", "interval IS NULL"),
            ("all = case or (user = `any`)", "((all = case) OR (user = `any`))"),
            (
                "not interval and array < struct",
                "(NOT interval AND (array < struct))",
            ),
            ("_a.E5 = 1.e5", "(_a.E5 = 1.e5)"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "ends too early"),
            ("a >", "ends too early"),
            ("a > 1 2", "2 is not expected"),
            ("a < b < c", "< is not expected"),
            ("a is null is null", "is is not expected"),
            ("a <=> 1", "'<=>' is not known"),
            ("length(a) > 1", "function length"),
            ("a.b(c)", "function a.b"),
            ("a like 'x'", "patterns are not supported"),
            ("a not like 'x'", "patterns are not supported"),
            ("a is distinct from 1", "a IS DISTINCT FROM 1 is not known"),
            ("interval '1' day > a", "is not expected"),
            ("a not null", "not is not expected"),
            ("a + 1 > 2", "'+'"),
            ("-a > 1", "-a is not known"),
            ("a = \"x\"", "double quotes"),
            ("a = \"x", "double quotes"),
            ("a = 'it''s'", "quote"),
            ("a = 'x' 'y'", "quote"),
            ("a = 'x\\n'", "backslash"),
            ("a = 'x\\'y'", "backslash"),
            ("a = 'x", "quote at its end"),
            ("`a = 1", "backquote at its end"),
            ("a = 10L", "10L goes on"),
            ("a = 10and b", "10 goes on"),
            ("a = 1.", "1. goes on"),
            ("a = .5", ".5 goes on"),
            ("a = 1.5.2", "1.5 goes on"),
            ("a = 1e", "1 goes on"),
            ("a = 1 -- no", "comments"),
            ("a = /* no */ 1", "comments"),
            ("a = /* no", "comment"),
            ("a = 1;", "';'"),
            ("a = x'41'", "is not known"),
            ("a = n'x'", "is not known"),
            ("a = e'x'", "'x' is not expected"),
            ("a in ()", ") is not expected"),
            ("a in (1, b)", "else than literals"),
            ("(a or b) between 0 and 1", "BETWEEN goes with"),
            ("a < 1e400", "beyond the doubles"),
            ("a is true", "a IS TRUE is not known"),
            ("and = 1", "and is not expected"),
            ("ä = 1", "'ä'"),
            ("case when a then b end", "when is not expected"),
            ("a = any", "reserves the word any here"),
            ("not exists", "reserves the word exists here"),
            ("a in (select b)", "reserves the word select here"),
            ("a.'x' = 1", "'x' is not expected"),
            ("(a, b)", "(a, b) is not known"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        let digits = "9".repeat(39);
        assert!(parse(&format!("a = {digits}")).unwrap_err().contains("38 digits"));
    }

    #[test]
    fn an_expression_is_no_longer_and_no_deeper_than_the_limits() {
        let nested = |levels: usize| format!("{}a = -1{}", "(".repeat(levels), ")".repeat(levels));
        assert!(parse(&nested(MOST_DEPTH)).is_ok());
        assert!(
            parse(&nested(MOST_DEPTH + 1))
                .unwrap_err()
                .contains("deeper than 64")
        );
        assert!(parse(&format!("{} a = -1", "not ".repeat(MOST_DEPTH))).is_ok());
        assert!(parse(&format!("{} a = -1", "not ".repeat(MOST_DEPTH + 1))).is_err());
        let chain = |count: usize| vec!["a = 1"; count].join(" or ");
        assert!(parse(&chain(5_000)).is_ok());
        assert!(parse(&chain(10_000)).unwrap_err().contains("65536 bytes"));
    }

    #[test]
    fn no_text_takes_more_stack_than_the_limits() {
        let texts = [
            ("(", "a"),
            ("not ", "a"),
            ("not (", "a"),
            ("a or ", "a"),
            ("a and b or ", "+"),
            ("a or b and not (", "a"),
            ("1=", "1"),
            ("a.", "a"),
            ("a is null ", ""),
            ("a between ", "1"),
            ("a in (", "1"),
            ("-(", "1"),
            ("array<", "int"),
            ("case when ", "a"),
            ("(select ", "a"),
            ("date '1' ", ""),
        ];
        for (part, last) in texts {
            let text = part.repeat(MOST_BYTES / part.len() - 1) + last;
            let is_flat = matches!(part, "a or " | "a.");
            assert_eq!(parse(&text).is_ok(), is_flat, "{part}");
            assert!(parse(&part.repeat(100_000)).is_err(), "{part}");
        }
    }

    #[test]
    fn reserved_words_have_backquotes_in_what_is_added() {
        let strict = |text: &str| parse_for(text, Purpose::Added);
        for text in ["end = 1", "User = 'a'", "a.table = 1", "interval is null", "case"] {
            assert!(strict(text).unwrap_err().contains("SQL reserves"), "{text}");
            assert!(parse(text).is_ok(), "{text}");
        }
        assert!(strict("`end` = 1 and a.`table` = 1 and date > DATE '2026-01-31'").is_ok());
    }

    #[test]
    fn a_doubled_quote_is_one_where_no_other_engine_reads_the_text() {
        let asked = |text: &str| parse_for(text, Purpose::Asked);
        for text in ["'it''s'", "''''", "''", "'a''''b'"] {
            assert_eq!(asked(&format!("a = {text}")), Ok(format!("(a = {text})")));
        }
        for (text, reason) in [
            ("a = 'x' 'y'", "follows another one"),
            ("a = 'x''", "quote at its end"),
            ("a = 'x\\n'", "tuple"),
        ] {
            let refused = asked(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        assert!(asked("end = 1 and user is null").is_ok());
    }

    #[test]
    fn an_error_has_its_place() {
        for (text, place) in [
            ("a >", "at its end"),
            ("a = 1 and b like 'x'", "at character 11, \"b like 'x'\""),
            (
                "a = 1\n and b\r\n like 'x'",
                "at character 12, \"b\\r\\n like 'x'\"",
            ),
            ("a = -b", "at character 6, \"b\""),
            ("a in (1, b)", "at character 10"),
            ("`ü` = 'x", "at character 7"),
            ("a = 1 or length(b) > 1", "at character 10, \"length(b) > 1\""),
            ("(a = 1", "at its end"),
            ("a = 1)", "at character 6, \")\""),
            ("a = 1 ' at Line: 7, Column: 7'", "at character 7, "),
        ] {
            let words = super::parse(text, Purpose::Asked).unwrap_err().words(text);
            assert!(words.starts_with(place), "{text}: {words}");
        }
    }

    proptest! {
        #[test]
        fn any_tokens_are_printed_as_they_are_parsed(
            tokens in prop::collection::vec(
                prop::sample::select(vec![
                    "a", "`b``c`", ".", "(", ")", ",", "-", "=", "==", "<>", "<=", "1", "0.5", "1e3", "'it''s'", "DATE",
                    "TIMESTAMP", "NULL", "true", "and", "OR", "not", "IS", "in", "between", "case", "array", "--", "x'",
                ]),
                0..30,
            ),
            space in prop::sample::select(vec!["", " ", "\r\n"]),
        ) {
            let text = tokens.join(space);
            for purpose in [Purpose::Stated, Purpose::Added, Purpose::Asked] {
                reprinted(&text, purpose);
            }
        }
    }
}
