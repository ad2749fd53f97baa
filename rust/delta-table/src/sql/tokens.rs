//! The tokens of a condition, as sqlparser has them, without those that are not known or that engines read differently.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace, Word};

use super::Purpose;
use super::fault::{SqlFault, rest_at};
use super::literals::number;
use super::parse::Grammar;

/// The words for double quotes.
const DOUBLE_QUOTES: &str = "double quotes are those of a text for some engines, and those of a name for others: write \
                             a text as 'x', and a name as `x`";

/// The tokens of a text, in their order. Names and texts have doubled quotes as they are written.
pub(super) fn tokens(text: &str, grammar: &Grammar) -> Result<Vec<TokenWithSpan>, SqlFault> {
    let mut tokens = Vec::new();
    let read = Tokenizer::new(grammar, text)
        .with_unescape(false)
        .tokenize_with_location_into_buf(&mut tokens);
    tokens.retain(|token| {
        !matches!(
            token.token,
            Token::Whitespace(Whitespace::Space | Whitespace::Tab | Whitespace::Newline)
        )
    });
    // What is not known comes before the end of the text, which may be lost by it.
    for (place, token) in tokens.iter().enumerate() {
        check(&tokens[..place], token, grammar.purpose)?;
    }
    read.map_err(|error| unread(text, error))?;
    Ok(tokens)
}

/// The fault of a text that has no tokens.
fn unread(text: &str, error: TokenizerError) -> SqlFault {
    let why = match rest_at(text, error.location).chars().next() {
        Some('\'') => "a text has no quote at its end".to_owned(),
        Some('`') => "a name has no backquote at its end".to_owned(),
        Some('"') => DOUBLE_QUOTES.to_owned(),
        _ => error.message,
    };
    SqlFault::at(error.location, why)
}

/// Refuses a token that follows others.
fn check(before: &[TokenWithSpan], token: &TokenWithSpan, purpose: Purpose) -> Result<(), SqlFault> {
    let fault = |why: String| Err(SqlFault::at(token.span.start, why));
    if let Some(number) = before.last().filter(|last| is_number(last))
        && number.span.end == token.span.start
        && (is_number(token) || matches!(&token.token, Token::Word(word) if word.quote_style.is_none()))
    {
        return Err(SqlFault::at(number.span.start, goes_on(number)));
    }
    match &token.token {
        Token::Number(text, is_long) if *is_long || text.starts_with('.') || text.ends_with('.') => {
            fault(goes_on(token))
        }
        Token::Number(text, _) => match number(text) {
            Ok(_) => Ok(()),
            Err(why) => fault(why),
        },
        Token::SingleQuotedString(text) => check_text(before, text, purpose).or_else(fault),
        Token::LParen => check_call(before),
        Token::Word(word) if is_other(before.last(), word) => fault(format!(
            "SQL reserves the word {word} here: write a column as `{word}`"
        )),
        Token::Word(_)
        | Token::Eq
        | Token::DoubleEq
        | Token::Neq
        | Token::Lt
        | Token::LtEq
        | Token::Gt
        | Token::GtEq
        | Token::RParen
        | Token::Comma
        | Token::Period
        | Token::Minus => Ok(()),
        Token::Whitespace(_) => fault("comments are not known".to_owned()),
        Token::DoubleQuotedString(_) => fault(DOUBLE_QUOTES.to_owned()),
        Token::Char(sign) if sign.is_alphabetic() => {
            fault(format!("'{sign}' is not known: a name with it has backquotes"))
        }
        other => fault(format!("'{other}' is not known")),
    }
}

/// Returns true for a word that SQL takes for something else than a column after this token.
fn is_other(before: Option<&TokenWithSpan>, word: &Word) -> bool {
    use Token::{DoubleEq, Eq, Gt, GtEq, LParen, Lt, LtEq, Neq};
    let before = before.map(|before| &before.token);
    match word.keyword {
        Keyword::SELECT | Keyword::WITH => before == Some(&LParen),
        Keyword::ANY | Keyword::ALL | Keyword::SOME => {
            matches!(before, Some(Eq | DoubleEq | Neq | Lt | LtEq | Gt | GtEq))
        }
        Keyword::EXISTS => matches!(before, Some(Token::Word(word)) if word.keyword == Keyword::NOT),
        _ => false,
    }
}

fn is_number(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Number(..))
}

fn goes_on(number: &TokenWithSpan) -> String {
    format!("{number} goes on in a way that is not known: give a number such as 7, -0.5 or 1e3")
}

/// Refuses a text that engines read differently.
fn check_text(before: &[TokenWithSpan], text: &str, purpose: Purpose) -> Result<(), String> {
    let follows = matches!(before.last(), Some(last) if matches!(last.token, Token::SingleQuotedString(_)));
    // Spark joins two texts or reads one quote, as its settings say.
    if follows || (purpose != Purpose::Asked && text.contains('\'')) {
        return Err(
            "a text has a quote in it or follows another one, which engines read differently".to_owned(),
        );
    }
    if text.contains('\\') {
        let instead = match purpose {
            Purpose::Asked => ": give it as a tuple of column, operator and value",
            Purpose::Added | Purpose::Stated => "",
        };
        return Err(format!(
            "a text has a backslash in it, which engines read differently{instead}"
        ));
    }
    Ok(())
}

/// Refuses a parenthesis after a name, which is that of a function.
fn check_call(before: &[TokenWithSpan]) -> Result<(), SqlFault> {
    let is_name = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if !is_reserved(word));
    let Some(mut first) = before.len().checked_sub(1).filter(|last| is_name(&before[*last])) else {
        return Ok(());
    };
    while first >= 2 && before[first - 1].token == Token::Period && is_name(&before[first - 2]) {
        first -= 2;
    }
    let name: String = before[first..].iter().map(ToString::to_string).collect();
    Err(SqlFault::at(
        before[first].span.start,
        format!("the function {name} is not known"),
    ))
}

/// Returns true for the words that conditions are made of, which are no names without backquotes.
pub(super) fn is_reserved(word: &Word) -> bool {
    use Keyword::{AND, BETWEEN, FALSE, IN, IS, NOT, NULL, OR, TRUE};
    matches!(
        word.keyword,
        AND | BETWEEN | FALSE | IN | IS | NOT | NULL | OR | TRUE
    )
}
