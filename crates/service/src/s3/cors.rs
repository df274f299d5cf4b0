//! Sets, returns and deletes the CORS rules of a bucket. [`crate::http::cors`] applies them.

use s3s::dto::{self, CORSRule};
use s3s::{S3Request, S3Response, s3_error};

use crate::http::cors::{RULES_BYTES_MAX, RULES_MAX, Rule, encode, parse_or_log};
use crate::s3::Answer;
use crate::s3::errors::{custom, unreadable_setting};
use crate::s3::namespace::Namespace;

impl Namespace {
    pub(crate) fn get_cors(&self, request: S3Request<dto::GetBucketCorsInput>) -> Answer<dto::GetBucketCorsOutput> {
        let bucket = self.bucket(&request.input.bucket)?;
        let text = bucket.cors.as_deref();
        let text = text.ok_or_else(|| s3_error!(NoSuchCORSConfiguration, "The CORS configuration does not exist"))?;
        let rules = parse_or_log(&self.state, &bucket.name, text).ok_or_else(|| unreadable_setting("CORS configuration"))?;
        Ok(S3Response::new(dto::GetBucketCorsOutput { cors_rules: Some(rules.into_iter().map(to_dto).collect()) }))
    }

    pub(crate) fn put_cors(&self, request: S3Request<dto::PutBucketCorsInput>) -> Answer<dto::PutBucketCorsOutput> {
        let input = request.input;
        self.bucket(&input.bucket)?;
        let rules: Vec<Rule> = input.cors_configuration.cors_rules.into_iter().map(from_dto).collect();
        if rules.is_empty() || rules.len() > RULES_MAX {
            return Err(s3_error!(MalformedXML, "A CORS configuration must have 1 to {RULES_MAX} rules."));
        }
        rules.iter().try_for_each(Rule::check)?;
        let rules = encode(&rules);
        // Every preflight request parses the rules, and every backup of the service's state
        // contains them.
        if rules.len() > RULES_BYTES_MAX {
            let message = "Your request was too large: the limit of a CORS configuration is 64 KB.";
            return Err(custom("MaxMessageLengthExceeded", http::StatusCode::BAD_REQUEST, message));
        }
        self.change(&request.extensions, &input.bucket, |bucket| {
            bucket.cors = Some(rules);
            Ok(())
        })?;
        Ok(S3Response::new(dto::PutBucketCorsOutput {}))
    }

    pub(crate) fn delete_cors(&self, request: S3Request<dto::DeleteBucketCorsInput>) -> Answer<dto::DeleteBucketCorsOutput> {
        self.change(&request.extensions, &request.input.bucket, |bucket| {
            bucket.cors = None;
            Ok(())
        })?;
        Ok(S3Response::with_status(dto::DeleteBucketCorsOutput {}, http::StatusCode::NO_CONTENT))
    }
}

fn from_dto(rule: CORSRule) -> Rule {
    Rule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers: rule.allowed_headers.unwrap_or_default(),
        exposed: rule.expose_headers.unwrap_or_default(),
        max_age_s: rule.max_age_seconds,
    }
}

fn to_dto(rule: Rule) -> CORSRule {
    let some = |names: Vec<String>| (!names.is_empty()).then_some(names);
    CORSRule {
        id: rule.id,
        allowed_origins: rule.origins,
        allowed_methods: rule.methods,
        allowed_headers: some(rule.headers),
        expose_headers: some(rule.exposed),
        max_age_seconds: rule.max_age_s,
    }
}
