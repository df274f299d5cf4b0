//! Sets, returns and deletes the CORS rules of a bucket. [`crate::http::cors`] applies them.

use s3s::dto::{
    CORSRule, DeleteBucketCorsInput, DeleteBucketCorsOutput, GetBucketCorsInput, GetBucketCorsOutput, PutBucketCorsInput,
    PutBucketCorsOutput,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::gateway::Gateway;
use crate::http::cors::{RULES_BYTES_MAX, RULES_MAX, Rule, encode, parse_noting};
use crate::s3::errors::{custom, not_readable};

impl Gateway {
    pub(crate) fn get_cors(&self, request: S3Request<GetBucketCorsInput>) -> S3Result<S3Response<GetBucketCorsOutput>> {
        let bucket = self.bucket(&request.input.bucket)?;
        let text = bucket.cors.as_deref();
        let text = text.ok_or_else(|| s3_error!(NoSuchCORSConfiguration, "The CORS configuration does not exist"))?;
        let rules = parse_noting(&self.state, &bucket.name, text).ok_or_else(|| not_readable("CORS configuration"))?;
        Ok(S3Response::new(GetBucketCorsOutput { cors_rules: Some(rules.into_iter().map(given).collect()) }))
    }

    pub(crate) fn put_cors(&self, request: S3Request<PutBucketCorsInput>) -> S3Result<S3Response<PutBucketCorsOutput>> {
        let input = request.input;
        self.bucket(&input.bucket)?;
        let rules: Vec<Rule> = input.cors_configuration.cors_rules.into_iter().map(kept).collect();
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
        self.change(&input.bucket, |bucket| bucket.cors = Some(rules))?;
        Ok(S3Response::new(PutBucketCorsOutput {}))
    }

    pub(crate) fn delete_cors(&self, request: S3Request<DeleteBucketCorsInput>) -> S3Result<S3Response<DeleteBucketCorsOutput>> {
        self.change(&request.input.bucket, |bucket| bucket.cors = None)?;
        Ok(S3Response::with_status(DeleteBucketCorsOutput {}, http::StatusCode::NO_CONTENT))
    }
}

fn kept(rule: CORSRule) -> Rule {
    Rule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers: rule.allowed_headers.unwrap_or_default(),
        exposed: rule.expose_headers.unwrap_or_default(),
        max_age_s: rule.max_age_seconds,
    }
}

fn given(rule: Rule) -> CORSRule {
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
