//! The part of SQL that is understood here.
//!
//! It has comparisons of columns and literals, `AND`, `OR`, `NOT`, `IS [NOT] NULL`, `[NOT] IN`, `[NOT] BETWEEN` and
//! parentheses. Texts that engines read differently are refused: a condition means the same to all of them.

use super::Purpose;
use super::fault::Fault;
use super::tokens::{Placed, Token, tokens};
use super::words::{ANSI_RESERVED, RESERVED};

/// The depth of parentheses and `NOT` at most. Reading goes down once for each.
pub(super) const MOST_DEPTH: usize = 64;

/// The bytes of an expression at most.
pub(super) const MOST_BYTES: usize = 64 << 10;

/// The digits of a number at most: those of the widest decimal.
const MOST_DIGITS: usize = 38;

/// The words for what may stand where a value is asked for.
const OPERAND: &str = "give a column or a literal";

/// The words for what may follow a value.
const AFTER: &str = "give a comparison, IS NULL, IN, BETWEEN, AND or OR, or nothing more";

/// An expression as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// A value.
    Literal(Placed<Literal>),
    /// A column, or a field of one: names from the top.
    Column(Placed<Vec<String>>),
    /// The negation.
    Not(Box<Expression>),
    /// True if all are.
    All(Vec<Expression>),
    /// True if one is.
    Any(Vec<Expression>),
    /// True if there is no value.
    IsNull(Box<Expression>),
    /// True if the value is one of these.
    In(Box<Expression>, Vec<Placed<Literal>>),
    /// A comparison.
    Compare(Box<Expression>, Operator, Box<Expression>),
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number without an exponent, which is exact.
    Number(Number),
    /// A number with an exponent.
    Double(f64),
    /// Text.
    Text(String),
    /// The text of a date.
    Date(String),
    /// The text of a timestamp.
    Timestamp(String),
}

/// A decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// Its digits as a whole number.
    pub unscaled: i128,
    /// The number of digits behind the point.
    pub scale: u8,
    /// The number of all digits.
    pub digits: u8,
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Expression {
    /// The byte where it begins, but for what only opens it.
    pub fn at(&self) -> usize {
        match self {
            Self::Literal(literal) => literal.at,
            Self::Column(column) => column.at,
            Self::Not(inner) | Self::IsNull(inner) | Self::In(inner, _) | Self::Compare(inner, ..) => {
                inner.at()
            }
            Self::All(parts) | Self::Any(parts) => parts.first().map_or(0, Self::at),
        }
    }

    /// Hands over the names of each column. Ends with the first error.
    pub fn each_column(
        &mut self,
        change: &mut impl FnMut(&mut Placed<Vec<String>>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self {
            Self::Literal(_) => Ok(()),
            Self::Column(path) => change(path),
            Self::Not(inner) | Self::IsNull(inner) | Self::In(inner, _) => inner.each_column(change),
            Self::All(parts) | Self::Any(parts) => {
                parts.iter_mut().try_for_each(|part| part.each_column(change))
            }
            Self::Compare(left, _, right) => {
                left.each_column(change)?;
                right.each_column(change)
            }
        }
    }
}

/// Parses a condition. The error says why it is not understood.
pub(super) fn parse(text: &str, purpose: Purpose) -> Result<Expression, Fault> {
    if text.len() > MOST_BYTES {
        return Err(Fault::of_all(format!("it is longer than {MOST_BYTES} bytes")));
    }
    let mut parser = Parser {
        tokens: tokens(text, purpose)?,
        end: text.len(),
        next: 0,
        depth: 0,
        purpose,
    };
    let expression = parser.any()?;
    if parser.next < parser.tokens.len() {
        return Err(parser.unexpected(AFTER));
    }
    Ok(expression)
}

struct Parser {
    tokens: Vec<Placed<Token>>,
    /// The number of bytes.
    end: usize,
    next: usize,
    depth: usize,
    purpose: Purpose,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|token| &token.it)
    }

    /// The byte where the next token begins.
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |token| token.at)
    }

    fn fault(&self, why: impl Into<String>) -> Fault {
        Fault::at(self.at(), why)
    }

    /// The fault of the next token, where something else was expected.
    fn unexpected(&self, expected: &str) -> Fault {
        self.fault(match self.peek() {
            None => format!("it ends too early: {expected}"),
            Some(token) => format!("{} is not expected where it stands: {expected}", token.shown()),
        })
    }

    /// Takes the next token if it is this one.
    fn accept(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.next += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &Token, expected: &str) -> Result<(), Fault> {
        if self.accept(token) {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    /// Takes the next token if it is this word, in any case.
    fn accept_word(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(next)) if next.eq_ignore_ascii_case(word));
        self.next += usize::from(is_next);
        is_next
    }

    fn expect_word(&mut self, word: &str, expected: &str) -> Result<(), Fault> {
        if self.accept_word(word) {
            return Ok(());
        }
        Err(self.unexpected(expected))
    }

    fn any(&mut self) -> Result<Expression, Fault> {
        let mut parts = vec![self.all()?];
        while self.accept_word("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, Fault> {
        let mut parts = vec![self.negated()?];
        while self.accept_word("and") {
            parts.push(self.negated()?);
        }
        Ok(one_or(parts, Expression::All))
    }

    fn negated(&mut self) -> Result<Expression, Fault> {
        if self.accept_word("not") {
            let inner = self.deeper(Self::negated)?;
            return Ok(Expression::Not(Box::new(inner)));
        }
        self.predicate()
    }

    fn deeper(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Expression, Fault>,
    ) -> Result<Expression, Fault> {
        if self.depth == MOST_DEPTH {
            return Err(self.fault(format!("it is nested deeper than {MOST_DEPTH}")));
        }
        self.depth += 1;
        let done = inner(self);
        self.depth -= 1;
        done
    }

    fn predicate(&mut self) -> Result<Expression, Fault> {
        let left = self.operand()?;
        if let Some(Token::Compare(operator)) = self.peek() {
            let operator = *operator;
            self.next += 1;
            let right = self.operand()?;
            return Ok(compare(left, operator, right));
        }
        if self.accept_word("is") {
            let is_negated = self.accept_word("not");
            self.expect_word("null", "give IS NULL or IS NOT NULL")?;
            return Ok(negated_if(is_negated, Expression::IsNull(Box::new(left))));
        }
        let is_negated = self.accept_word("not");
        if self.accept_word("in") {
            let among = Expression::In(Box::new(left), self.list()?);
            return Ok(negated_if(is_negated, among));
        }
        if self.accept_word("between") {
            if !matches!(left, Expression::Column(_) | Expression::Literal(_)) {
                return Err(Fault::at(left.at(), "BETWEEN goes with a column or a literal"));
            }
            let least = self.operand()?;
            self.expect_word("and", "give AND and the upper end of BETWEEN")?;
            let greatest = self.operand()?;
            let within = Expression::All(vec![
                compare(left.clone(), Operator::GreaterOrEqual, least),
                compare(left, Operator::LessOrEqual, greatest),
            ]);
            return Ok(negated_if(is_negated, within));
        }
        if is_negated {
            return Err(self.unexpected("give IN or BETWEEN after NOT"));
        }
        Ok(left)
    }

    /// The list after `IN`.
    fn list(&mut self) -> Result<Vec<Placed<Literal>>, Fault> {
        self.expect(&Token::Open, "give a list of literals in parentheses")?;
        let mut literals = Vec::new();
        loop {
            match self.operand()? {
                Expression::Literal(literal) => literals.push(literal),
                other => return Err(Fault::at(other.at(), "a list has something else than literals")),
            }
            if !self.accept(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::Close, "give a comma or the end of the list")?;
        Ok(literals)
    }

    fn operand(&mut self) -> Result<Expression, Fault> {
        let at = self.at();
        let Some(token) = self.peek().cloned() else {
            return Err(self.unexpected(OPERAND));
        };
        let literal = |it| Ok(Expression::Literal(Placed { it, at }));
        let of_number = |text: &str, is_negative| number(text, is_negative).map_err(|why| Fault::at(at, why));
        match token {
            Token::Open => {
                self.next += 1;
                let inner = self.deeper(Self::any)?;
                self.expect(&Token::Close, "give AND, OR or the end of the parentheses")?;
                Ok(inner)
            }
            Token::Minus => {
                self.next += 1;
                let Some(Token::Number(text)) = self.peek().cloned() else {
                    return Err(self.unexpected("give a number after the sign"));
                };
                self.next += 1;
                literal(of_number(&text, true)?)
            }
            Token::Number(text) => {
                self.next += 1;
                literal(of_number(&text, false)?)
            }
            Token::Text(text) => {
                self.next += 1;
                literal(Literal::Text(text))
            }
            Token::Quoted(name) => {
                self.next += 1;
                self.column(name, at)
            }
            Token::Word(word) => self.word(word, at),
            Token::Compare(_) | Token::Close | Token::Comma | Token::Dot => Err(self.unexpected(OPERAND)),
        }
    }

    /// The operand that begins with a word.
    fn word(&mut self, word: String, at: usize) -> Result<Expression, Fault> {
        let lower = word.to_ascii_lowercase();
        if RESERVED.contains(&lower.as_str()) && !["null", "true", "false"].contains(&lower.as_str()) {
            return Err(self.unexpected(OPERAND));
        }
        self.next += 1;
        let literal = |it| Ok(Expression::Literal(Placed { it, at }));
        match (lower.as_str(), self.peek().cloned()) {
            ("null", _) => literal(Literal::Null),
            ("true" | "false", _) => literal(Literal::Boolean(lower == "true")),
            ("date", Some(Token::Text(text))) => {
                self.next += 1;
                literal(Literal::Date(text))
            }
            ("timestamp", Some(Token::Text(text))) => {
                self.next += 1;
                literal(Literal::Timestamp(text))
            }
            (_, Some(Token::Open)) => Err(unknown_function(&word, at)),
            _ => {
                self.check_bare(&word, at)?;
                self.column(word, at)
            }
        }
    }

    /// Refuses a reserved word without backquotes.
    fn check_bare(&self, word: &str, at: usize) -> Result<(), Fault> {
        let lower = word.to_ascii_lowercase();
        if self.purpose == Purpose::Added && ANSI_RESERVED.binary_search(&lower.as_str()).is_ok() {
            let why = format!("SQL reserves the word {word}: write the column as `{word}`");
            return Err(Fault::at(at, why));
        }
        Ok(())
    }

    /// The rest of a column's name.
    fn column(&mut self, first: String, at: usize) -> Result<Expression, Fault> {
        let mut path = vec![first];
        while self.accept(&Token::Dot) {
            match self.peek().cloned() {
                Some(Token::Quoted(part)) => path.push(part),
                Some(Token::Word(part)) => {
                    self.check_bare(&part, self.at())?;
                    path.push(part);
                }
                _ => return Err(self.unexpected("give the name of a field")),
            }
            self.next += 1;
        }
        if self.peek() == Some(&Token::Open) {
            return Err(unknown_function(&path.join("."), at));
        }
        Ok(Expression::Column(Placed { it: path, at }))
    }
}

fn unknown_function(name: &str, at: usize) -> Fault {
    Fault::at(at, format!("the function {name} is not known"))
}

fn one_or(mut parts: Vec<Expression>, several: impl FnOnce(Vec<Expression>) -> Expression) -> Expression {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            several(parts)
        }
    }
}

fn negated_if(is_negated: bool, expression: Expression) -> Expression {
    if is_negated {
        Expression::Not(Box::new(expression))
    } else {
        expression
    }
}

fn compare(left: Expression, operator: Operator, right: Expression) -> Expression {
    Expression::Compare(Box::new(left), operator, Box::new(right))
}

fn number(text: &str, is_negative: bool) -> Result<Literal, String> {
    let unknown = || format!("the number {text} has more than {MOST_DIGITS} digits");
    if text.contains(['e', 'E']) {
        let value: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
        if !value.is_finite() {
            return Err(format!("the number {text} is beyond the doubles"));
        }
        return Ok(Literal::Double(if is_negative { -value } else { value }));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let digits = (whole.len() + fraction.len()).max(1);
    if digits > MOST_DIGITS {
        return Err(unknown());
    }
    let unscaled: i128 = match format!("{whole}{fraction}").as_str() {
        "" => 0,
        digits => digits.parse().map_err(|_| unknown())?,
    };
    Ok(Literal::Number(Number {
        unscaled: if is_negative { -unscaled } else { unscaled },
        scale: u8::try_from(fraction.len()).map_err(|_| unknown())?,
        digits: u8::try_from(digits).map_err(|_| unknown())?,
    }))
}

impl Number {
    /// The nearest double.
    pub fn to_double(self) -> Option<f64> {
        nearest_double(self.unscaled, self.scale)
    }
}

/// The double nearest to a decimal number.
pub(super) fn nearest_double(unscaled: i128, scale: u8) -> Option<f64> {
    format!("{unscaled}e-{scale}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Expression, String> {
        super::parse(text, Purpose::Stated).map_err(|fault| fault.why)
    }

    fn column(name: &str) -> Expression {
        columns(name.split('.'))
    }

    fn columns<'a>(names: impl IntoIterator<Item = &'a str>) -> Expression {
        let it = names.into_iter().map(str::to_owned).collect();
        Expression::Column(Placed { it, at: 0 })
    }

    fn literal(it: Literal) -> Expression {
        Expression::Literal(Placed { it, at: 0 })
    }

    fn whole(value: i128) -> Expression {
        let digits = u8::try_from(value.abs().to_string().len()).unwrap();
        literal(Literal::Number(Number {
            unscaled: value,
            scale: 0,
            digits,
        }))
    }

    #[test]
    fn not_binds_closer_than_and_and_that_closer_than_or() {
        let flag = column;
        let parsed = parse("NOT a AND b OR NOT (c or d)").unwrap();
        assert_eq!(
            parsed,
            Expression::Any(vec![
                Expression::All(vec![Expression::Not(Box::new(flag("a"))), flag("b")]),
                Expression::Not(Box::new(Expression::Any(vec![flag("c"), flag("d")]))),
            ])
        );
    }

    #[test]
    fn lists_have_literals_and_ranges_are_comparisons() {
        let Expression::In(left, literals) = parse("a.`b` in (1, -2)").unwrap() else {
            panic!("no list");
        };
        assert_eq!(*left, column("a.b"));
        let values: Vec<Expression> = literals.into_iter().map(Expression::Literal).collect();
        assert_eq!(values, [whole(1), whole(-2)]);
        assert_eq!(
            parse("x not between 0 and 10").unwrap(),
            Expression::Not(Box::new(Expression::All(vec![
                compare(column("x"), Operator::GreaterOrEqual, whole(0)),
                compare(column("x"), Operator::LessOrEqual, whole(10)),
            ])))
        );
        assert_eq!(
            parse("x IS NOT NULL").unwrap(),
            Expression::Not(Box::new(Expression::IsNull(Box::new(column("x")))))
        );
    }

    #[test]
    fn numbers_are_exact_without_an_exponent() {
        let of = |text: &str| match parse(&format!("x = {text}")) {
            Ok(Expression::Compare(_, _, right)) => Ok(*right),
            other => Err(other),
        };
        let exact = |unscaled, scale, digits| {
            Ok(literal(Literal::Number(Number {
                unscaled,
                scale,
                digits,
            })))
        };
        assert_eq!(of("007"), exact(7, 0, 1));
        assert_eq!(of("0"), exact(0, 0, 1));
        assert_eq!(of("-0.50"), exact(-50, 2, 2));
        assert_eq!(of("12.5"), exact(125, 1, 3));
        assert_eq!(of("1e-3"), Ok(literal(Literal::Double(1e-3))));
        assert_eq!(of("-2E2"), Ok(literal(Literal::Double(-200.0))));
        assert!(of(&"9".repeat(38)).is_ok());
    }

    #[test]
    fn words_may_be_columns_and_types() {
        assert_eq!(
            parse("date >= DATE '2026-01-31'").unwrap(),
            compare(
                column("date"),
                Operator::GreaterOrEqual,
                literal(Literal::Date("2026-01-31".to_owned()))
            )
        );
        assert_eq!(
            parse("`not` = 'x'").unwrap(),
            compare(
                column("not"),
                Operator::Equal,
                literal(Literal::Text("x".to_owned()))
            )
        );
        assert_eq!(parse("`a``b.c`").unwrap(), columns(["a`b.c"]));
    }

    #[test]
    fn what_is_not_known_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "ends too early"),
            ("a >", "ends too early"),
            ("a > 1 2", "2 is not expected"),
            ("a < b < c", "a comparison is not expected"),
            ("a <=> 1", "a comparison is not expected"),
            ("length(a) > 1", "function length"),
            ("a.b(c)", "function a.b"),
            ("a like 'x'", "like is not expected"),
            ("a not like 'x'", "like is not expected"),
            ("a + 1 > 2", "'+'"),
            ("-a > 1", "a is not expected"),
            ("a = \"x\"", "double quotes"),
            ("a = 'it''s'", "quote"),
            ("a = 'x' 'y'", "quote"),
            ("a = 'x\\n'", "backslash"),
            ("a = 'x", "quote at its end"),
            ("`a = 1", "backquote at its end"),
            ("a = 10L", "10 goes on"),
            ("a = 1.", "1. goes on"),
            ("a = 1e", "1 goes on"),
            ("a = 1 -- no", "comments"),
            ("a = 1;", "';'"),
            ("a in ()", ") is not expected"),
            ("a in (1, b)", "else than literals"),
            ("(a or b) between 0 and 1", "BETWEEN goes with"),
            ("a < 1e400", "beyond the doubles"),
            ("a is true", "true is not expected"),
            ("and = 1", "and is not expected"),
            ("ä = 1", "'ä'"),
            ("case when a then b end", "when is not expected"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        let digits = "9".repeat(39);
        assert!(parse(&format!("a = {digits}")).unwrap_err().contains("38 digits"));
        let deep = format!("{}a{}", "(".repeat(65), ")".repeat(65));
        assert!(parse(&deep).unwrap_err().contains("deeper than 64"));
        assert!(parse(&format!("{} a", "not ".repeat(65))).is_err());
        assert!(parse(&vec!["a = 1"; 5_000].join(" or ")).is_ok());
        assert!(
            parse(&vec!["a = 1"; 10_000].join(" or "))
                .unwrap_err()
                .contains("65536 bytes")
        );
    }

    #[test]
    fn nested_ranges_are_refused_before_they_multiply() {
        let nested = format!("{}a{}", "(".repeat(64), " between 0 and 1)".repeat(64));
        assert!(parse(&nested).unwrap_err().contains("BETWEEN goes with"));
    }

    #[test]
    fn reserved_words_have_backquotes_in_what_is_added() {
        let strict = |text: &str| super::parse(text, Purpose::Added).map_err(|fault| fault.why);
        for text in ["end = 1", "User = 'a'", "a.table = 1", "interval is null", "case"] {
            assert!(strict(text).unwrap_err().contains("SQL reserves"), "{text}");
            assert!(parse(text).is_ok(), "{text}");
        }
        assert!(strict("`end` = 1 and a.`table` = 1 and date > DATE '2026-01-31'").is_ok());
    }

    #[test]
    fn the_nearest_double_is_that_of_the_digits() {
        for text in ["0.1", "123456789.987654321", "2", "0.30000000000000001"] {
            let Ok(Literal::Number(number)) = number(text, false) else {
                panic!("{text} is no exact number");
            };
            assert_eq!(number.to_double(), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn a_doubled_quote_is_one_where_no_other_engine_reads_the_text() {
        let asked = |text: &str| super::parse(text, Purpose::Asked).map_err(|fault| fault.why);
        for (text, value) in [
            ("'it''s'", "it's"),
            ("''''", "'"),
            ("''", ""),
            ("'a''''b'", "a''b"),
        ] {
            let expected = compare(
                column("a"),
                Operator::Equal,
                literal(Literal::Text(value.to_owned())),
            );
            assert_eq!(asked(&format!("a = {text}")).unwrap(), expected, "{text}");
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
            ("a = 1 and b like 'x'", "at character 13, \"like 'x'\""),
            ("a = -b", "at character 6, \"b\""),
            ("a in (1, b)", "at character 10"),
            ("`ü` = 'x", "at character 7"),
            ("a = 1 or length(b) > 1", "at character 10, \"length(b) > 1\""),
            ("(a = 1", "at its end"),
            ("a = 1)", "at character 6, \")\""),
        ] {
            let words = super::parse(text, Purpose::Asked).unwrap_err().words(text);
            assert!(words.starts_with(place), "{text}: {words}");
        }
    }
}
